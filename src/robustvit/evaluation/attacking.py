"""Attacks in an evaluation: made from the clean images of a batch, one row of answers or more each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robustvit.attacks.attack import FIT_BATCH, Attack
from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.attacks.registry import build_attack
from robustvit.data.protocols import Protocol
from robustvit.data.samples import Sample, SampleSet, UnreadablePictureError
from robustvit.runtime.memory import fits_memory
from robustvit.runtime.nested import map_tensors

__all__ = ["ATTACK_SUITE", "Attacker", "as_attacks", "size_of_change"]

ATTACK_SUITE = "attack"
"""What the cells of attacks are filed under."""


def as_attacks(attacks: str | Attack | Sequence[str | Attack]) -> tuple[Attack, ...]:
    """Names and attacks -> attacks.

    Raises:
        ValueError: there is no such attack, or one is given twice.
    """
    given = [attacks] if isinstance(attacks, str | Attack) else list(attacks)
    built = tuple(build_attack(attack) if isinstance(attack, str) else attack for attack in given)
    names = [attack.name for attack in built]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise ValueError(
            f"the attack {twice[0]} is given twice; give other settings in another run, with an output of its own"
        )
    return built


class Attacker:
    """Attacks one network, after whatever the attacks have to learn.

    Args:
        model: pixels in 0 .. 1 -> what the task answers.
        attacks: to make.
        images, protocol: of the evaluation, for attacks that learn.
        seed: of the run.
    """

    def __init__(
        self, model: PixelNetwork, attacks: Sequence[Attack], pictures: SampleSet, protocol: Protocol, seed: int
    ) -> None:
        self.model, self.pictures, self.protocol = model, pictures, protocol
        self.attacks, self.seed = attacks, seed
        self.ready: list[Attack] | None = None

    def prepare(self, learned: Callable[[int], None] = lambda count: None) -> list[Attack]:
        """The attacks, ready. Learning depends on network, images and seed alone, so that it can be repeated.

        Args:
            learned: told how many images an attack has just learned from.
        """
        if self.ready is None:
            ready = []
            for attack in self.attacks:
                with fits_memory(FIT_BATCH, self.protocol.size, attack.fit_remedy):
                    ready.append(attack.ready(self.model, self._batches(learned), self.seed))
            self.ready = ready
        return self.ready

    def rows(self, images: Tensor, labels: Sequence[Any], ids: Sequence[str], only: str | None = None) -> Iterator[Tensor]:
        """For every row of every attack, the attacked images float [B, 3, H, W] in 0 .. 1.

        Args:
            images: uint8 [B, 3, H, W], clean.
            labels: targets of the task: of a classifier, positions among the outputs that compete.
            ids: of the images.
            only: the name of an attack; None for all.
        """
        device = _device(self.model)
        x = images.to(device).float() / 255
        y = map_tensors(self.model.task.collate(labels), lambda tensor: tensor.to(device))
        for attack in (attack for attack in self.prepare() if only in (None, attack.name)):
            for row in range(len(attack.rows)):
                attacked = attack(self.model, x, y, seed=attack.row_seed(self.seed, row), sample_ids=ids)
                yield torch.where(attacked.isfinite(), attacked, x)  # a network without finite outputs has no gradient

    def _batches(self, learned: Callable[[int], None]) -> Iterator[Tensor]:
        """float [16, 3, H, W], the images over and over, shuffled by the seed where they can be had in any order."""
        device, waiting = _device(self.model), []
        for turn in itertools.count():
            found = 0
            for picture in _in_some_order(self.pictures, self.seed + turn):
                try:
                    waiting.append(self.protocol.apply(picture.open()))
                except (UnreadablePictureError, ValueError):
                    continue
                found += 1
                if len(waiting) == FIT_BATCH:
                    learned(FIT_BATCH)
                    yield torch.stack(waiting).to(device).float() / 255
                    waiting = []
            if not found:
                return


def size_of_change(attacked: Tensor, images: Tensor) -> np.ndarray:
    """float32 [B, 3]: the `CHANGES` (see `tallied`) of each image.

    Args:
        attacked: float [B, 3, H, W] in 0 .. 1.
        images: uint8 [B, 3, H, W], clean.
    """
    change = attacked - images.to(attacked.device).float() / 255
    sizes = (change.abs().flatten(1).amax(1), change.flatten(1).norm(dim=1), (change != 0).any(1).float().mean((1, 2)))
    return torch.stack(sizes, dim=1).cpu().numpy().astype(np.float32)


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters(), torch.zeros(())).device


def _in_some_order(pictures: SampleSet, seed: int) -> Iterator[Sample]:
    at = getattr(pictures, "at", None)
    if at is None:
        return iter(pictures)
    return (at(int(i)) for i in np.random.default_rng(seed).permutation(len(pictures)))
