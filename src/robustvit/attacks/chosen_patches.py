"""The patches covered that a network chooses, which was trained to find those that hurt (AFAT, Table 3)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from robustvit.attacks.attack import FIT_BATCH, Attack, Batches, SampleIds, accuracy_measure
from robustvit.attacks.options import option
from robustvit.attacks.patches import A_TENTH, PatchSettings, covered, patch_seeds
from robustvit.attacks.pixel_network import PixelNetwork, check_pixels, device_of
from robustvit.corruptions.patches import keep_highest
from robustvit.methods.patch_corruption import (
    PatchScorer,
    cover_patches,
    draw_noise,
    load_scorer,
    random_scores,
)
from robustvit.recording.block_outputs import block_tokens, blocks_of
from robustvit.recording.tape import NothingRecordedError
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.number_checks import check_numbers
from robustvit.runtime.randomness import keyed_seed

__all__ = ["AdversarialPatches", "ChosenPatchSettings", "cover_adversarial", "fit_scorer"]


def cover_adversarial(
    model: PixelNetwork,
    images: Tensor,
    labels: Tensor,
    scorer: PatchScorer,
    settings: PatchSettings = A_TENTH,
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> Tensor:
    """Images with the patches covered that `scorer` chooses; other arguments as in `cover_random`."""
    ids = check_pixels(images, labels, sample_ids)
    with torch.no_grad():
        keep = keep_highest(scorer(model.normalise(images).float()), settings.rho)
    return covered(model, images, keep, scorer.grid, settings, patch_seeds(seed, ids))


def fit_scorer(
    model: PixelNetwork,
    batches: Iterable[Tensor],
    settings: PatchSettings = A_TENTH,
    *,
    steps: int = 200,
    lr: float = 1e-3,
    seed: int = 0,
) -> PatchScorer:
    """A patch corruption network for a frozen classifier: it learns which patches change the features most.

    Two random masks of every image are tried; the patches of the one with the larger alignment loss should get the lower
    scores (a logistic loss on the difference of their sums). AFAT's straight-through gradient climbs as well, unless it is
    clipped as in the released code (`keep_mask`); but it is linear: of a kept patch it tells what a little noise would
    change, not what a covered one does, and it needs a gradient of the network. `benchmarks/corruption_network.py` compares.

    Args:
        model: the classifier; left as it was.
        batches: pixels [B, 3, H, W] in 0 .. 1, at least `steps` of them.
        settings: of the covering.
        steps: of Adam.
        lr: its rate.
        seed: of the start, the masks and the noise.

    Raises:
        ValueError: there are fewer batches.
    """
    scorer: PatchScorer | None = None
    done = 0
    for images in batches:
        check_interrupted()
        if done == steps:
            break
        if scorer is None:
            scorer = _new_scorer(model, images, settings, seed)
            optimizer = torch.optim.Adam(scorer.parameters(), lr=lr)
        optimizer.zero_grad()
        _ranking_loss(model, scorer, images, settings, [keyed_seed(seed, done, i) for i in range(len(images))]).backward()
        optimizer.step()
        done += 1
    if scorer is None or done < steps:
        raise ValueError(f"{steps} steps of training need as many batches, got {done}")
    return scorer.eval().requires_grad_(False)


def _ranking_loss(
    model: PixelNetwork, scorer: PatchScorer, images: Tensor, settings: PatchSettings, seeds: list[int]
) -> Tensor:
    x = model.normalise(images)
    N = scorer.grid[0] * scorer.grid[1]
    clean = _features(model, x)
    hurt, sums = [], []
    scores = scorer(x.float())
    for attempt in range(2):
        drawn = [keyed_seed(value, attempt, "mask") for value in seeds]
        keep = keep_highest(random_scores(drawn, N, x), settings.rho)
        cover = draw_noise(x, settings.noise, model.mean, model.std, drawn)
        spoiled = _features(model, cover_patches(x, keep, cover, model.mean, model.std))
        change = [(a - b).square().flatten(1).mean(1) for a, b in zip(clean, spoiled, strict=True)]
        hurt.append(torch.stack(change).mean(0))  # L_align of each image
        sums.append((scores * (1 - keep)).sum(1))
    return F.softplus((sums[0] - sums[1]) * (hurt[0] - hurt[1]).sign()).mean()


def _features(model: PixelNetwork, x: Tensor) -> list[Tensor]:
    """Image tokens after every block; of a CNN, the positions of its maps."""
    own = next((parameter.dtype for parameter in model.network.parameters()), x.dtype)
    return [block.tokens.float() for block in block_tokens(model.network, x.to(own))]


def _new_scorer(model: PixelNetwork, images: Tensor, settings: PatchSettings, seed: int) -> PatchScorer:
    H, W = images.shape[-2:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed_seed(seed, "scorer") >> 1)
        return PatchScorer((H, W), settings.side(model, (H, W))).to(images.device)


@dataclass(frozen=True)
class ChosenPatchSettings(PatchSettings):
    """Of `AdversarialPatches`.

    Attributes:
        corruption_model: folder of a run with AFAT, or a checkpoint of it, whose corruption network chooses. Without it, one
            is fitted to the network that is attacked, on the images of the evaluation.
        fit_steps: of that fitting.
    """

    corruption_model: str | None = option(None, metavar="RUN")
    fit_steps: int = 200

    def __post_init__(self) -> None:
        check_numbers(self)
        self.check_share()
        if self.corruption_model is not None and self.patch_size is not None:
            raise ValueError(
                f"patch_size={self.patch_size} has no effect with a corruption_model, which has its own; leave it out"
            )
        if self.corruption_model is None and self.fit_steps < 1:
            raise ValueError(f"fit_steps={self.fit_steps} is not possible; give at least 1, or a corruption_model")


@dataclass(frozen=True)
class AdversarialPatches(Attack):
    """The patches covered that a corruption network chooses.

    Attributes:
        settings: of the covering, and where the network comes from.
        scorer: the network, once it is there (`ready`).
    """

    name = "patches-adversarial"
    label = "Chosen patches"
    summary = "a tenth of the patches covered that a corruption network chooses"
    needs = "blocks, or a corruption network"
    settings_class = ChosenPatchSettings
    measures = (
        accuracy_measure(
            "patches-adversarial",
            "Accuracy, chosen patches covered",
            "Top-1 accuracy with the patches covered by noise that a corruption network chooses.",
            under="patches that a network chose to cover",
            order=5,
        ),
    )
    fit_remedy = "--corruption-model takes a network that is trained already"

    settings: ChosenPatchSettings = field(default_factory=ChosenPatchSettings)
    scorer: PatchScorer | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        if options.get("corruption_model") is not None and "fit_steps" in options:
            raise ValueError("fit_steps has no effect with a corruption_model, which is trained already; give one of them")
        return super().from_options(options)

    @property
    def learns_from(self) -> int:
        return self.settings.fit_steps * FIT_BATCH if self.settings.corruption_model is None else 0

    def describe(self) -> dict[str, Any]:
        about = {name: value for name, value in self.settings.describe().items() if name in ("rho", "patch_size", "noise")}
        run = self.settings.corruption_model
        if run is None:
            fitted = "fitted to this network on these images"
            return {**about, "corruption_network": fitted, "fit_steps": self.settings.fit_steps}
        scorer = load_scorer(run)
        weights = b"".join(tensor.numpy().tobytes() for tensor in scorer.state_dict().values())
        digest = hashlib.blake2b(weights, digest_size=6).hexdigest()
        trained = f"trained with AFAT: {Path(run).name} (weights {digest})"
        return {**about, "patch_size": scorer.patch_size, "corruption_network": trained}

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        run = self.settings.corruption_model
        if run is not None:
            trained = load_scorer(run).img_size
            if trained != size:
                raise ValueError(
                    f"the corruption network of {run} takes {trained[0]}x{trained[1]} pixels and this "
                    f"evaluation has {size[0]}x{size[1]}; give one trained at that size, or fit one (fit_steps)"
                )
            return
        try:
            blocks_of(model.network)
        except NothingRecordedError as error:
            raise ValueError(
                f"patches-adversarial fits its corruption network to the features of blocks, and {error}; give a trained one "
                "(corruption_model)"
            ) from error
        self.settings.check_tiling(model, size)

    def ready(self, model: PixelNetwork, batches: Batches, seed: int) -> AdversarialPatches:
        settings = self.settings
        if settings.corruption_model is not None:
            return replace(self, scorer=load_scorer(settings.corruption_model).to(device_of(model)))
        return replace(self, scorer=fit_scorer(model, batches, settings, steps=settings.fit_steps, seed=seed))

    def run(self, model: PixelNetwork, images: Tensor, labels: Tensor, seed: int, ids: SampleIds) -> Tensor:
        if self.scorer is None:
            raise RuntimeError("patches-adversarial has no corruption network yet; call the attack that `ready` gives")
        return cover_adversarial(model, images, labels, self.scorer, self.settings, seed=seed, sample_ids=ids)
