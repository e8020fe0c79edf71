"""The configuration of a training run: frozen dataclasses that are also the YAML recipe and the command line.

    model: {name: fan_vit_tiny, tap: 4}
    optimizer: {lr: 1.0e-3}
    methods: {adl: {tau: 2.0}}

`load_config` reads a recipe and `--set optimizer.lr=1e-3` changes it; unknown keys are errors (see `config_io`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from robustvit.data.protocol_names import INTERPOLATIONS
from robustvit.runtime.number_checks import check_numbers
from robustvit.training.deepaugment.kinds import KINDS

__all__ = [
    "SCENE_CROPS",
    "AugmentConfig",
    "DataConfig",
    "LoopConfig",
    "LossConfig",
    "ModelConfig",
    "OptimizerConfig",
    "ScheduleConfig",
    "TrainConfig",
]

SCENE_CROPS = ("scene", "multiscale")
"""Crops of scenes, whose label maps, boxes and masks follow."""


def _require(name: str, is_possible: bool, value: object, expected: str) -> None:
    if not is_possible:
        raise ValueError(f"{name}={value!r} is not possible; give {expected}")


@dataclass(frozen=True)
class ModelConfig:
    """The network, as `robustvit.create_model` takes it.

    Attributes:
        name: ours, a published or any timm name.
        num_classes: None takes the number from the data.
        img_size: side of the images; None takes what the network was made for.
        crop_pct: share of the shorter side that the centre crop of validation keeps, 0.875 to resize to 256 pixels for 224. It
            is saved with the network, and later evaluations do the same. None takes what the network was made with.
        interpolation: of the resizing before that crop: one of `INTERPOLATIONS`; None takes what the network was made with.
        tap: number of TAP branches or the name of an alternative; None for none.
        tap_blocks: "all", "shallow", "deep" or block indices.
        token_head: STL's classifier of tokens.
        drop_path: rate of stochastic depth; None takes what the network was made with (0 for most, 0.1 for Swin).
        pretrained: start from published weights.
        checkpoint: start from this file of weights, or the folder of a run. Another number of classes gives a fresh head,
            another image size resamples position tables.
        options: further arguments of `create_model`.
    """

    name: str = "fan_vit_nano"
    num_classes: int | None = None
    img_size: int | None = None
    crop_pct: float | None = None
    interpolation: str | None = None
    tap: int | str | None = None
    tap_blocks: str | tuple[int, ...] = "all"
    token_head: bool = False
    drop_path: float | None = None
    pretrained: bool = False
    checkpoint: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rate = self.drop_path
        _require("model.drop_path", rate is None or 0 <= rate < 1, rate, "null, or 0 or more and less than 1")
        share = self.crop_pct
        _require("model.crop_pct", share is None or 0.01 <= share <= 1, share, "null, or a share such as 0.875, at most 1")
        filters = (None, *INTERPOLATIONS)
        _require(
            "model.interpolation", self.interpolation in filters, self.interpolation, f"null, {', '.join(INTERPOLATIONS)}"
        )
        for name in ("num_classes", "img_size"):
            value = getattr(self, name)
            _require(f"model.{name}", value is None or value >= 1, value, "null, or 1 or more")


@dataclass(frozen=True)
class DataConfig:
    """Where the images come from.

    Attributes:
        train: class folders, CIFAR, tar, hfds/..., or "scenes:20000", "scenes-easy:20000" (generated).
        val: the same for validation; "" for none.
        train_limit, val_limit: take a fixed random subset of this many; 0 for all.
        copies: folders with distorted copies of the training images (DeepAugment: ROOT/EDSR/CLASS/..., ROOT/CAE/CLASS/...),
            added to the training set.
        repeats: times that an image comes in one epoch with other augmentations (repeated augmentation); an epoch stays as
            long, with fewer distinct images.
        ignore_orientation: take pixels as they are stored, as the published recipes do; otherwise images are set upright by
            the EXIF tag of cameras.
        workers: processes that read and augment; 0 does it in a thread beside the network.
        cache: keep decoded images in memory: "auto" does if they take less than 1 GB.
    """

    train: str = "scenes:20000"
    val: str = "scenes:1000"
    train_limit: int = 0
    val_limit: int = 0
    copies: tuple[str, ...] = ()
    repeats: int = 1
    ignore_orientation: bool = False
    workers: int = 0
    cache: Literal["auto", "yes", "no"] = "auto"

    def __post_init__(self) -> None:
        _require("data.train_limit", self.train_limit >= 0, self.train_limit, "0 for all, or more")
        _require("data.val_limit", self.val_limit >= 0, self.val_limit, "0 for all, or more")
        _require("data.repeats", self.repeats >= 1, self.repeats, "1 or more")
        _require("data.workers", self.workers >= 0, self.workers, "0 or more")


@dataclass(frozen=True)
class AugmentConfig:
    """What happens to a training image, in this order. What happens to a sample depends on (seed, epoch, sample) alone.

    Attributes:
        crop: "resized" (random area and ratio, scaled to the size), "padded" (scaled to the size, padded by an eighth, random
            crop: the habit on 32-pixel images), "none" (scaled to the size), "scene" (scaled by a random factor, its ratio
            kept, random crop, padded where it is smaller: for label maps and boxes) or "multiscale" (scaled to a random side,
            its ratio kept, one half of the images after a random crop; padded to the largest of the batch: for boxes).
        scale, ratio: of the resized crop.
        crop_size: (H, W) of the images that the network is trained with; None takes its own size.
        base_size: (longer, shorter side) that a scene fits into at the factor 1; None takes that of each image.
        ratio_range: of the factor of a scene.
        cat_max_ratio: a crop of a scene is drawn again, up to ten times, if one class has this share of its counted pixels, or
            if there is only one; 1 takes any. Targets that are no label maps have no say in it.
        short_sides, long_side: of "multiscale": the shorter side becomes one of these numbers of pixels, unless the longer one
            then exceeds the limit.
        first_short_sides: the same, before the random crop; empty for no crops.
        crop_range: least and greatest height and width of the random crop, each drawn for itself.
        interpolation: "bilinear", "bicubic" or "random" of the two.
        flip: probability of a horizontal flip.
        rand_augment: timm's string, `rand-m9-mstd0.5-inc1`; "" for none.
        color_jitter: strength, used where there is no RandAugment.
        photometric: change brightness, contrast, saturation and hue as published segmenters do (`photometric.py`).
        deepaugment: one of `KINDS` distorts half of the images, each by a random or broken network; "" for none.
        mixup, cutmix: parameters of the Beta distribution; 0 for off.
        mix_prob, mix_switch_prob: probability of mixing a group of images, and of cutmix where both are on.
        mix_group: images that are mixed among themselves, with one draw of share and box. It is even and divides
            `loop.batch_size`; 0, or as much as the batch, draws once an update. Published programs draw on each GPU.
        erasing: probability of random erasing.
        mean, std: of the normalisation; None takes the network's.
    """

    crop: Literal["resized", "padded", "none", "scene", "multiscale"] = "padded"
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    crop_size: tuple[int, int] | None = None
    base_size: tuple[int, int] | None = None
    ratio_range: tuple[float, float] = (0.5, 2.0)
    cat_max_ratio: float = 0.75
    short_sides: tuple[int, ...] = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)
    long_side: int = 1333
    first_short_sides: tuple[int, ...] = (400, 500, 600)
    crop_range: tuple[int, int] = (384, 600)
    interpolation: Literal["bilinear", "bicubic", "random"] = "random"
    flip: float = 0.5
    rand_augment: str = ""
    color_jitter: float = 0.0
    photometric: bool = False
    deepaugment: str = ""
    mixup: float = 0.0
    cutmix: float = 0.0
    mix_prob: float = 1.0
    mix_switch_prob: float = 0.5
    mix_group: int = 0
    erasing: float = 0.0
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("flip", "mix_prob", "mix_switch_prob", "erasing"):
            _require(f"augment.{name}", 0 <= getattr(self, name) <= 1, getattr(self, name), "a probability, 0 to 1")
        group = self.mix_group
        _require("augment.mix_group", group >= 0 and group % 2 == 0, group, "0 for all images of an update, or an even number")
        _require("augment.deepaugment", self.deepaugment in ("", *KINDS), self.deepaugment, f"'' or one of {', '.join(KINDS)}")
        _require("augment.std", self.std is None or min(self.std) > 0, self.std, "null, or three numbers above 0")
        for name in ("mixup", "cutmix", "color_jitter"):
            _require(f"augment.{name}", getattr(self, name) >= 0, getattr(self, name), "0 for off, or more")
        _require("augment.scale", self.scale[1] <= 1, self.scale, "shares of the area, at most 1")
        _require("augment.cat_max_ratio", 0 < self.cat_max_ratio <= 1, self.cat_max_ratio, "a share above 0, at most 1")
        for name in ("crop_size", "base_size"):
            sides = getattr(self, name)
            _require(f"augment.{name}", sides is None or min(sides) >= 1, sides, "null, or two numbers of pixels")
        for name in ("scale", "ratio", "ratio_range", "crop_range"):
            low, high = getattr(self, name)
            _require(f"augment.{name}", 0 < low <= high, (low, high), "two numbers above 0, the smaller first")
        crops, filters = ("resized", "padded", "none", *SCENE_CROPS), ("bilinear", "bicubic", "random")
        for name, known in (("crop", crops), ("interpolation", filters)):
            _require(f"augment.{name}", getattr(self, name) in known, getattr(self, name), f"one of {', '.join(known)}")
        self._check_sides()
        if self.crop in SCENE_CROPS:
            unused = {"rand_augment": self.rand_augment, "color_jitter": self.color_jitter}
            for name, value in unused.items():
                _require(
                    f"augment.{name}", not value, value, f"none of it with crop={self.crop!r}, which has augment.photometric"
                )

    def _check_sides(self) -> None:
        _require("augment.short_sides", len(self.short_sides) > 0, self.short_sides, "at least one number of pixels")
        for name in ("short_sides", "first_short_sides"):
            sides = getattr(self, name)
            is_possible = all(1 <= side <= self.long_side for side in sides)
            _require(f"augment.{name}", is_possible, sides, f"numbers of pixels, at most augment.long_side ({self.long_side})")
        is_one = self.crop != "multiscale" or self.crop_size is None
        _require("augment.crop_size", is_one, self.crop_size, "null with crop='multiscale', which has augment.short_sides")


@dataclass(frozen=True)
class LossConfig:
    """The loss of the task, which methods add to.

    Attributes:
        smoothing: s: the true class keeps 1 - s + s / K.
        weight: of the task's own loss: of a classifier, the cross-entropy of the image label.
        divisor: what the loss over pixels is divided by: "all" of them, as released, or those that are "counted", without the
            ignored ones. These are counted in each process and micro-batch, whose number then changes the gradient a little.
    """

    smoothing: float = 0.1
    weight: float = 1.0
    divisor: Literal["all", "counted"] = "all"

    def __post_init__(self) -> None:
        _require("loss.smoothing", 0 <= self.smoothing < 1, self.smoothing, "0 or more and less than 1")
        _require("loss.weight", self.weight >= 0, self.weight, "0 or more")
        _require("loss.divisor", self.divisor in ("all", "counted"), self.divisor, "all or counted")


@dataclass(frozen=True)
class OptimizerConfig:
    """timm's optimizer.

    Attributes:
        name: as timm calls it.
        lr: peak learning rate, for `lr_batch` images an update.
        lr_batch: the rate becomes lr * batch / lr_batch; 0 takes `lr` as it is, whatever the batch.
        weight_decay: but see `no_decay`.
        no_decay: what has no weight decay: "timm" (biases, norms and what the network excepts) or "layer_norms" (those of the
            body alone, see `parameter_groups.py`), as published segmenters and detectors are trained.
        head_rate: factor of the rate of heads: parameters with a `head` in their name.
        layer_decay: factor of the rate from a block to the one before it; None for one rate.
        clip_grad: largest norm of the gradient; None for no clipping.
        options: further arguments of the optimizer (betas, eps, momentum).
    """

    name: str = "adamw"
    lr: float = 1e-3
    lr_batch: int = 0
    weight_decay: float = 0.05
    no_decay: Literal["timm", "layer_norms"] = "timm"
    head_rate: float = 1.0
    layer_decay: float | None = None
    clip_grad: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require("optimizer.lr", self.lr >= 0, self.lr, "0 or more")
        _require("optimizer.lr_batch", self.lr_batch >= 0, self.lr_batch, "0 for no rule, or more")
        _require("optimizer.weight_decay", self.weight_decay >= 0, self.weight_decay, "0 or more")
        _require("optimizer.clip_grad", self.clip_grad is None or self.clip_grad > 0, self.clip_grad, "null or more than 0")
        decay = self.layer_decay
        _require("optimizer.layer_decay", decay is None or 0 < decay <= 1, decay, "null, or more than 0 and at most 1")
        _require("optimizer.head_rate", self.head_rate > 0, self.head_rate, "more than 0")
        _require("optimizer.no_decay", self.no_decay in ("timm", "layer_norms"), self.no_decay, "timm or layer_norms")
        is_alone = decay is None or (self.head_rate == 1 and self.no_decay == "timm")
        _require(
            "optimizer.layer_decay", is_alone, decay, "null, or head_rate=1 and no_decay=timm: they group parameters anew"
        )


@dataclass(frozen=True)
class ScheduleConfig:
    """timm's schedule of the learning rate.

    Attributes:
        name: as timm calls it.
        epochs: of the schedule.
        updates: of the schedule, where it is not counted in epochs; 0 for `epochs`. What `options` counts in epochs
            (decay_milestones, ...) is in updates, too, then.
        warmup_epochs, warmup_lr: linear from `warmup_lr`; they replace the start of the schedule.
        warmup_updates, warmup_ratio: another warm-up instead, of this many updates: the rate of the schedule times a factor
            that grows linearly from the ratio to 1, as for published segmenters and detectors; None for `warmup_epochs`.
        min_lr: at its end.
        cooldown_epochs: further epochs at `min_lr`.
        every: "update" or "epoch": how often the rate changes.
        lag_epochs: how far the rate lags behind: epoch e has the rate of epoch e - lag_epochs, and the first epochs have
            that of epoch 0. 1 for programs that set the rate of an epoch at its end (RVT, AFAT on RVT and on CIFAR).
        options: further arguments of timm's `create_scheduler_v2`; the power of "poly" is its `decay_rate`.
    """

    name: str = "cosine"
    epochs: int = 10
    updates: int = 0
    warmup_epochs: float = 1.0
    warmup_lr: float = 1e-6
    warmup_updates: int | None = None
    warmup_ratio: float = 1e-6
    min_lr: float = 1e-6
    cooldown_epochs: int = 0
    every: Literal["update", "epoch"] = "update"
    lag_epochs: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require("schedule.epochs", self.epochs >= 1, self.epochs, "1 or more")
        for name in ("updates", "warmup_epochs", "warmup_lr", "min_lr", "cooldown_epochs", "lag_epochs"):
            _require(f"schedule.{name}", getattr(self, name) >= 0, getattr(self, name), "0 or more")
        warmup = self.warmup_updates
        _require("schedule.warmup_updates", warmup is None or warmup >= 0, warmup, "null for warmup_epochs, or 0 or more")
        _require("schedule.warmup_ratio", 0 <= self.warmup_ratio <= 1, self.warmup_ratio, "0 to 1")
        is_short = self.warmup_epochs <= self.epochs or self.updates > 0 or warmup is not None
        _require("schedule.warmup_epochs", is_short, self.warmup_epochs, f"at most schedule.epochs ({self.epochs})")
        _require("schedule.every", not (self.updates and self.every == "epoch"), self.every, "update, with schedule.updates")


@dataclass(frozen=True)
class LoopConfig:
    """How the run goes.

    Attributes:
        batch_size: images an update, over all processes and micro-batches.
        accumulate: micro-batches of an update in each process.
        precision: "fp32", "bf16" or "fp16" (with a loss scaler).
        channels_last, compile, grad_checkpointing: as PyTorch means them.
        ema_decay: of the averaged weights; 0 for none.
        ema_warmup: let the decay grow from 0 in short runs.
        parallel: "ddp" or "fsdp", where torchrun started several processes.
        sync_batchnorm: one set of batch statistics over all processes.
        freeze_batchnorm: train with the running statistics as they are at the start, for batches too small to have their own.
            "auto" does, in dense tasks, where a single process works on fewer than 4 images at a time.
        seed: of everything.
        device: "auto", "cpu", "cuda", "mps".
        checkpoint_every: updates between checkpoints; 0 for one at the end of each epoch.
        keep: checkpoints to keep, besides the best.
        log_every: updates between lines of metrics.jsonl.
        validate_every: epochs between validations.
        validate_updates: updates between validations, in place of epochs; 0 for `validate_every`.
        max_updates: stop after so many, where the schedule would go on; 0 for all.
        tensorboard: write events too (extra `track`).
    """

    batch_size: int = 128
    accumulate: int = 1
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    channels_last: bool = False
    compile: bool = False
    grad_checkpointing: bool = False
    ema_decay: float = 0.0
    ema_warmup: bool = False
    parallel: Literal["ddp", "fsdp"] = "ddp"
    sync_batchnorm: bool = False
    freeze_batchnorm: bool | Literal["auto"] = "auto"
    seed: int = 0
    device: str = "auto"
    checkpoint_every: int = 0
    keep: int = 2
    log_every: int = 50
    validate_every: int = 1
    validate_updates: int = 0
    max_updates: int = 0
    tensorboard: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "accumulate", "keep", "log_every", "validate_every"):
            _require(f"loop.{name}", getattr(self, name) >= 1, getattr(self, name), "1 or more")
        for name in ("checkpoint_every", "validate_updates", "max_updates"):
            _require(f"loop.{name}", getattr(self, name) >= 0, getattr(self, name), "0 or more")
        freeze = self.freeze_batchnorm
        _require("loop.freeze_batchnorm", freeze in (True, False, "auto"), freeze, "true, false or auto")
        _require("loop.ema_decay", 0 <= self.ema_decay < 1, self.ema_decay, "0 for none, or more and less than 1")


@dataclass(frozen=True)
class TrainConfig:
    """One training run.

    Attributes:
        task: what is learned, by its name in `tasks/registry`.
        methods: name -> its config (`methods/registry`): `{"adl": AdlConfig(tau=2)}`.
        validation: options of the task by which validation asks the network (`tasks/options`): `{"window": (512, 512)}`.
    """

    task: str = "classification"
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    methods: Mapping[str, Any] = field(default_factory=dict)
    validation: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_numbers(self)
