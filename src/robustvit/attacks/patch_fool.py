"""Patch-Fool: makes one patch wrong and eye-catching, by what the attention of the network says.

Fu et al., "Patch-Fool: are vision transformers always robust against adversarial perturbations?", ICLR 2022; AFAT, Table 3.

The content D of the chosen patches is optimised; x_adv = x (1 - m) + D m. Two things grow together: the loss, and the
attention that the patch draws in the first half of the blocks. Where the second would lower the first, it is projected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from robustvit.attacks.attack import Attack, SampleIds, accuracy_measure
from robustvit.attacks.gradient_sign import check_gradient, loss_gradient
from robustvit.attacks.options import option
from robustvit.attacks.patch_attention import attention_drawn, attention_received, pixel_mask, tokens_of
from robustvit.attacks.pixel_network import PixelNetwork, channels, check_pixels, device_of, frozen
from robustvit.attacks.sparse_pixels import FROZEN_AFTER, PixelChoice, SparsePixels
from robustvit.recording.tape import NothingRecordedError, attention_blocks, record
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.number_checks import check_numbers
from robustvit.runtime.randomness import KeyedDraws

__all__ = [
    "ChosenPatches",
    "Constraint",
    "PatchFool",
    "PatchFoolSettings",
    "PatchSelection",
    "Projection",
    "choose_patches",
    "patch_fool",
    "without_conflict",
]

PatchSelection = Literal["attention", "saliency", "random"]
"""The patches that get most attention, those with the largest gradient of the loss, or any."""

Projection = Literal["textbook", "published"]
"""textbook: takes away the part of the attention's gradient against the loss. published: divides by the norm of the loss's
gradient where the square belongs, which takes hardly anything away, and depends on the scale of the gradients."""

Constraint = Literal["none", "linf", "l2"]
"""Of the patch: any content; each value within `limit` of the image; each channel within an L2 ball of radius `limit`."""


LAYER = 4
"""Of the published attack, counted from 0."""


@dataclass(frozen=True)
class PatchFoolSettings:
    """How the attack goes; the defaults are the setting of the AFAT paper.

    Attributes:
        patches: how many; the attention term is about the first.
        select: the patches with the most attention, with the largest gradient of the loss (saliency), or any.
        layer: block whose attention selects, counted from 0; by default 4, or the last one of networks with fewer.
        attention_weight: of the attention's gradient beside the loss's; 0 leaves it out. It is about the blocks from the
            second to the middle, of which networks with fewer than four blocks have none.
        projection: of the attention's gradient where it is against the loss, by the textbook or as published (`Projection`).
        iterations: of Adam; the rate falls by 0.95 every 10.
        lr: its rate, in units of std.
        constraint: any content of the patches (none), or within the radius of the image: every value (linf), every channel
            (l2).
        limit: radius of the constraint, in pixel units, 1 being white; above 1, that of linf is read as /255.
        pixels: change only that many pixels of the patches; by default all.
        pixel_choice: which pixels.
    """

    patches: int = 1
    select: PatchSelection = "attention"
    layer: int | None = None
    attention_weight: float = 0.002
    projection: Projection = "textbook"
    iterations: int = 250
    lr: float = 0.22
    constraint: Constraint = "none"
    limit: float = option(0.0, flag="radius", is_length=True)
    pixels: int | None = None
    pixel_choice: PixelChoice = "learned"

    def __post_init__(self) -> None:
        check_numbers(self)
        kinds = dict(select=PatchSelection, projection=Projection, constraint=Constraint, pixel_choice=PixelChoice)
        for name, kind in kinds.items():
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name}={getattr(self, name)!r} is not known; choose one of {', '.join(get_args(kind))}")
        for name in ("patches", "iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not possible; give at least 1")
        if self.layer is not None and self.layer < 0:
            raise ValueError(f"layer={self.layer} is not possible; give the number of a block, from 0")
        if self.pixels is not None and self.pixels < 1:
            raise ValueError(f"pixels={self.pixels} is not possible; give at least 1, or None for all of the patches")
        if (self.constraint == "none") != (self.limit == 0) or self.limit < 0:
            raise ValueError(
                f"constraint={self.constraint!r} with limit={self.limit:g} is not possible; give both (--constraint and "
                "--radius on the command line), or neither"
            )

    @property
    def eps(self) -> float:
        """The limit of "linf", in 0 .. 1."""
        return self.limit / 255 if self.limit > 1 else self.limit


ONE_PATCH = PatchFoolSettings()


@dataclass(frozen=True)
class ChosenPatches:
    """Where an attack works: cells [B, k] of a grid of patches."""

    cells: Tensor
    grid: tuple[int, int]


def choose_patches(
    model: PixelNetwork,
    images: Tensor,
    labels: Tensor,
    settings: PatchFoolSettings,
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> ChosenPatches:
    """The patches to attack, from the clean images; arguments as in `patch_fool`."""
    ids = check_pixels(images, labels, sample_ids)
    with frozen(model):
        with torch.no_grad(), record(model) as tape:
            model(images)
        layer = _selecting_block(settings.layer, len(tape.grids))
        grid = tape.grids[layer]
        if settings.patches > grid[0] * grid[1]:
            raise ValueError(f"{settings.patches} patches are more than the {grid[0]}x{grid[1]} of block {layer}")
        if settings.select == "attention":
            scores = attention_received(tape, layer)
        elif settings.select == "saliency":
            gradient = loss_gradient(model, images, labels).abs().sum(1, keepdim=True)
            scores = F.adaptive_avg_pool2d(gradient, grid).flatten(1)
        else:
            scores = KeyedDraws(seed, ids, "patch-fool patches", device=images.device).uniform(0, 1, (grid[0] * grid[1],))
    return ChosenPatches(scores.topk(settings.patches, dim=1).indices, grid)


def _selecting_block(layer: int | None, count: int) -> int:
    if layer is None:
        return min(LAYER, count - 1)
    if layer >= count:
        raise ValueError(f"layer={layer}: this network has blocks 0 to {count - 1}")
    return layer


def patch_fool(
    model: PixelNetwork,
    images: Tensor,
    labels: Tensor,
    settings: PatchFoolSettings = ONE_PATCH,
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> Tensor:
    """Images [B, 3, H, W] whose chosen patches mislead the network; the last iterate.

    Args:
        model: with attention that `record` reads; left as it was.
        images: float [B, 3, H, W] in 0 .. 1.
        labels: int64 [B], the truth.
        settings: of the attack.
        seed, sample_ids: what happens to an image depends on (seed, its id) alone; ids are 0, 1, ... by default.
    """
    ids = check_pixels(images, labels, sample_ids)
    if not isinstance(model, PixelNetwork):
        raise TypeError(f"patch_fool needs the normalisation of {type(model).__name__} inside it; give PixelNetwork(model)")
    chosen = choose_patches(model, images, labels, settings, seed=seed, sample_ids=ids)
    attack = _Attack(model, images, labels, settings, chosen, KeyedDraws(seed, ids, "patch-fool", device=images.device))
    with frozen(model):
        return attack.run()


def without_conflict(gradient: Tensor, against: Tensor, projection: Projection = "textbook") -> Tensor:
    """`gradient` without its part against the other one, sample by sample, where their cosine is negative.

    Args:
        gradient, against: [B, ...].
        projection: see `Projection`.
    """
    g, a = gradient.flatten(1), against.flatten(1)
    product = (g * a).sum(1, keepdim=True)
    norm = a.norm(dim=1, keepdim=True).clamp(min=torch.finfo(a.dtype).tiny)
    part = product / (norm if projection == "published" else norm.square().clamp(min=torch.finfo(a.dtype).tiny)) * a
    return torch.where(product < 0, g - part, g).view_as(gradient)


class _Attack:
    """One batch under attack. D is kept in units of std, as the rate is; everything else is in pixels."""

    def __init__(
        self,
        model: PixelNetwork,
        images: Tensor,
        labels: Tensor,
        settings: PatchFoolSettings,
        chosen: ChosenPatches,
        draws: KeyedDraws,
    ) -> None:
        self.model, self.images, self.labels, self.settings, self.chosen = model, images, labels, settings, chosen
        self.mean, self.std = channels(model.mean, images), channels(model.std, images)
        H, W = images.shape[-2:]
        self.patches = pixel_mask(chosen.cells, chosen.grid, (H, W)).to(images.dtype)  # B 1 H W
        is_near = settings.constraint == "linf"
        self.low = (images - settings.eps).clamp(min=0) if is_near else torch.zeros_like(images)
        self.high = (images + settings.eps).clamp(max=1) if is_near else torch.ones_like(images)
        start = self.low + (self.high - self.low) * draws.uniform(0, 1, (3, H, W)).to(images.dtype)
        self.content = self._in_units(self._constrained(start)).requires_grad_()
        self.sparse = None
        if settings.pixels is not None:
            self.sparse = SparsePixels(draws.uniform(0, 1, (1, H, W)).to(images.dtype), self.patches, settings.pixels)

    def run(self) -> Tensor:
        settings = self.settings
        optimizer = torch.optim.Adam([self.content], lr=settings.lr)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.95)
        for iteration in range(settings.iterations):
            check_interrupted()
            is_choosing = self.sparse is not None and settings.pixel_choice == "learned" and iteration < FROZEN_AFTER
            gradients = self._gradients([self.content, *([self.sparse.scores] if self.sparse and is_choosing else [])])
            self.content.grad = -gradients[0]
            optimizer.step()
            schedule.step()
            if self.sparse is not None and is_choosing:
                self.sparse.climb(gradients[1])
            with torch.no_grad():
                self.content.copy_(self._in_units(self._constrained(self._in_pixels())))
        with torch.no_grad():
            return self._attacked().clamp(self.low.minimum(self.images), self.high.maximum(self.images))

    def _attacked(self) -> Tensor:
        mask = self.patches if self.sparse is None else self.sparse.mask()
        return self.images * (1 - mask) + self._in_pixels() * mask

    def _gradients(self, leaves: list[Tensor]) -> list[Tensor]:
        """Of the loss, and of the attention on the first patch without what is against the loss."""
        weight, projection = self.settings.attention_weight, self.settings.projection
        with torch.enable_grad():
            with record(self.model, attention=bool(weight)) as tape:
                losses = self._losses()
            layers = range(1, len(tape.attention) // 2)
            total = of_loss = torch.autograd.grad(losses.sum(), leaves, retain_graph=bool(layers))
            check_gradient(of_loss[0], losses)
            for layer in layers:
                tokens = tokens_of(self.chosen.cells[:, :1], self.chosen.grid, tape.grids[layer]).to(losses.dtype)
                drawn = attention_drawn(tape, layer, tokens).sum()
                found = torch.autograd.grad(drawn, leaves, retain_graph=layer != layers[-1])
                pairs = zip(found, of_loss, total, strict=True)
                total = tuple(sum_ + weight * without_conflict(g, own, projection) for g, own, sum_ in pairs)
        return list(total)

    def _losses(self) -> Tensor:
        return F.cross_entropy(self.model(self._attacked()).float(), self.labels, reduction="none")

    def _constrained(self, pixels: Tensor) -> Tensor:
        pixels = pixels.clamp(self.low, self.high)
        if self.settings.constraint != "l2":
            return pixels
        change = (pixels - self.images) * self.patches
        norm = change.flatten(2).norm(dim=2)[:, :, None, None]  # B 3 1 1: one ball per channel
        return (self.images + change * (self.settings.limit / norm.clamp(min=1e-12)).clamp(max=1)).clamp(0, 1)

    def _in_units(self, pixels: Tensor) -> Tensor:
        return (pixels - self.mean) / self.std

    def _in_pixels(self) -> Tensor:
        return self.content * self.std + self.mean


@dataclass(frozen=True)
class PatchFool(Attack):
    """A patch that misleads and draws attention."""

    name = "patch-fool"
    label = "Patch-Fool"
    summary = "the content of patches, so that it misleads and draws attention"
    needs = "gradients, attention"
    settings_class = PatchFoolSettings
    measures = (
        accuracy_measure(
            "patch-fool",
            "Accuracy under Patch-Fool",
            "Top-1 accuracy under Patch-Fool: patches that the network attends to are replaced by what misleads it most.",
            under="Patch-Fool",
            order=4,
        ),
    )

    settings: PatchFoolSettings = field(default_factory=PatchFoolSettings)

    def describe(self) -> dict[str, Any]:
        layer = f"{LAYER}, or the last block" if self.settings.layer is None else self.settings.layer
        return {**asdict(self.settings), "layer": layer}

    @classmethod
    def shown(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        idle = {"limit"} if settings.get("constraint") == "none" else set()
        idle |= {"pixel_choice"} if settings.get("pixels") is None else set()
        return {name: value for name, value in super().shown(settings).items() if name not in idle}

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        """The network has attention, patches and pixels enough: one iteration on a grey image."""
        try:
            attention_blocks(model.network)
        except NothingRecordedError as error:
            raise ValueError(f"patch-fool reads the attention of a network, and {error}") from error
        grey = torch.full((1, 3, *size), 0.5, device=device_of(model))
        label = torch.zeros(1, dtype=torch.long, device=grey.device)
        patch_fool(model, grey, label, replace(self.settings, iterations=1))

    def run(self, model: PixelNetwork, images: Tensor, labels: Tensor, seed: int, ids: SampleIds) -> Tensor:
        return patch_fool(model, images, labels, self.settings, seed=seed, sample_ids=ids)
