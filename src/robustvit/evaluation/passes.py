"""Passes: which samples a network sees, under which conditions, and what that gives.

A suite turns what a user asks for into a pass. All suites that corrupt the same images in memory share one, in which every
image is decoded once; a suite of files has one set of files per condition (`files_pass.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from robustvit.attacks.attack import Attack
from robustvit.attacks.pixel_network import PixelNetwork, device_of
from robustvit.corruptions.conditions import (
    CLEAN,
    JPEG_QUALITY,
    PATCH_SHARE,
    PATCHES,
    Condition,
    apply_condition,
    patch_side,
)
from robustvit.corruptions.parameters import family_of_size
from robustvit.corruptions.registry import CORRUPTIONS
from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol
from robustvit.data.sample_digest import add_samples
from robustvit.data.samples import Sample, SampleSet, SomeSamples, UnreadablePictureError, check_values
from robustvit.evaluation.attacking import Attacker, size_of_change
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.tallied import CHANGES, Tallied
from robustvit.layers.linear import quickened
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.memory import fits_memory
from robustvit.runtime.precision import answering_in
from robustvit.runtime.prefetch import Prefetch
from robustvit.runtime.processes import Processes
from robustvit.runtime.side_by_side import free_cores, side_by_side
from robustvit.runtime.stored_work import StoredWork
from robustvit.tasks.base import Task
from robustvit.tasks.passes import Decoded, batch_sizes, decoded_batches, predict_images
from robustvit.tasks.scoring import Scoring
from robustvit.tasks.tallies import Tallies
from robustvit.tasks.too_small import TooSmallError, ask, why_not_corrupted

if TYPE_CHECKING:
    from robustvit.evaluation.suites.suite import Suite

__all__ = ["MemoryPass", "Pass", "PassReport", "PassStoppedError", "counter", "some_of", "worst_cell"]

PassReport = Callable[[str, int, int], None]
"""Callback for progress: (what is being done, steps done, steps in all). It may raise `PassStoppedError`."""


class PassStoppedError(Exception):
    """A pass over samples was stopped in one of the processes, and ends without a result in all of them."""


@dataclass(frozen=True)
class Pass(ABC):
    """One pass of one network.

    Attributes:
        network: that is measured.
        suites: that it answers.
        cells: what the samples meet, in the order of the tallies.
        cell_suites: the suite of each cell, by name.
        task: bound to the network and the samples.
        samples: of the dataset; of a suite of files, those of the first cell.
        protocol: how an image becomes the input.
        normalisation: of the network.
        settings: of the run.
        left_out: conditions that the suites ask for and the files do not have.
        told: callback, called with the predictions as they are made.
    """

    network: nn.Module
    suites: tuple[Suite, ...]
    cells: tuple[Condition, ...]
    cell_suites: tuple[str, ...]
    task: Task
    samples: SampleSet
    protocol: Protocol
    normalisation: Normalisation
    settings: Settings
    left_out: tuple[Condition, ...] = ()
    told: Callable[[list[Any]], None] | None = None

    def __post_init__(self) -> None:
        """Raises ValueError where targets cannot be right; see `check_values`."""
        for samples in self.sample_sets:
            check_values(samples)

    @property
    def sample_sets(self) -> tuple[SampleSet, ...]:
        """All that it shows."""
        return (self.samples,)

    @property
    def suite_names(self) -> tuple[str, ...]:
        return tuple(suite.name for suite in self.suites)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Group -> its corruptions, as the suites sort them; where several suites differ, by the group of the corruption."""
        found: dict[str, list[str]] = {}
        for name in dict.fromkeys(cell.name for cell in self.cells if cell.severity):
            sorting = [suite for suite in self.suites if suite.has_severities]
            asked = {suite.group_of(name) for suite in sorting}
            found.setdefault(asked.pop() if len(asked) == 1 else CORRUPTIONS[name].group, []).append(name)
        return {group: tuple(names) for group, names in found.items()}

    @property
    def attacks(self) -> tuple[Attack, ...]:
        """Made from the clean images, after the conditions."""
        return ()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The cells that are not attacks."""
        return self.cells[: len(self.cells) - sum(len(attack.rows) for attack in self.attacks)]

    @property
    def tabled(self) -> Sequence[int]:
        """Positions of the cells whose predictions make a table, in which no prediction comes twice."""
        return range(len(self.cells))

    @property
    def scoring(self) -> Scoring:
        """How numbers come out of the tallies."""
        return self.task

    @property
    def is_of_images(self) -> bool:
        """Whether single images are shown, which the protocol has to take."""
        return True

    @property
    def has_clean_samples(self) -> bool:
        """Whether it shows the samples of the dataset as they are: corrupted files of the same names are compared with them,
        and some of them are shown in the report."""
        return False

    @property
    def shows_images(self) -> bool:
        """Whether some of its samples can be shown in the report."""
        return self.has_clean_samples

    def conditions_of(self, sample: str) -> tuple[Condition, ...]:
        """Those that the sample with this id can be shown under."""
        return self.conditions

    def only(self, positions: range) -> Pass | None:
        """The same over a few samples, without attacks that learn from others first; None where that is not possible."""
        return None

    @contextmanager
    def asking(self, *, gradients: bool = False) -> Iterator[None]:
        """The network in evaluation mode, with quick products, in the precision of the settings; see `evaluation_mode`."""
        network, precision = self.network, self.settings.precision
        with evaluation_mode(network, gradients=gradients), quickened(network), answering_in(precision, network):
            yield

    @abstractmethod
    def run(self, processes: Processes, stored: StoredWork | None, report: PassReport | None) -> Tallied:
        """All samples in all cells, from whichever process; the network is in evaluation mode.

        Args:
            processes: that share the work.
            stored: where finished batches are kept and found again; None for nowhere.
            report: callback for progress.

        Raises:
            PassStoppedError: the callback of one of the processes has raised it.
        """

    def scored(self, tallied: Tallied) -> Tallied:
        """What statistics are computed from: the cells, and where needed further ones that no result lists."""
        return tallied

    def under(self, images: Tensor, ids: list[str], condition: Condition) -> Tensor:
        """uint8 [B, 3, H, W] -> the same under a condition; files are already."""
        return images

    def attacker(self) -> Attacker:
        """Who makes the attacks."""
        mean, std = astuple(self.normalisation)
        pixels = PixelNetwork(self.network, mean, std, self.task.columns, task=self.task)
        return Attacker(pixels, self.attacks, self.samples, self.protocol, self.settings.seed)

    @abstractmethod
    def digest(self, samples: Digest) -> None:
        """Adds what the samples are to a digest."""

    def facts(self) -> tuple[Any, ...]:
        """What the predictions depend on besides network, samples and protocol, for the fingerprint of a run."""
        return self.task.facts()

    @abstractmethod
    def describe_data(self) -> dict[str, Any]:
        """Which samples, how many of how many, and whether corruptions were made or read."""

    def describe_protocol(self) -> dict[str, Any]:
        mean, std = astuple(self.normalisation)
        return {**self.protocol.describe(), "mean": mean, "std": std, "precision": self.settings.precision}

    def describe_corruption(self) -> dict[str, Any]:
        """How corruptions were made in memory; empty where nothing was made."""
        return {}

    def _data(self, origin: str) -> dict[str, Any]:
        whole = self.samples.pictures if isinstance(self.samples, SomeSamples) else self.samples
        counts = {"name": self.samples.name, "images": len(self.samples), "of": len(whole)}
        return {**counts, "origin": origin, **self.task.describe(self.samples)}


class _Group(NamedTuple):
    """Samples of one size: ids, targets, and images uint8 [b, 3, H, W]."""

    ids: list[str]
    targets: list[Any]
    images: Tensor


class _Batch(NamedTuple):
    """A batch by its number; `skipped` has (id, reason) of what could not be read, be it the image or its target."""

    number: int
    groups: list[_Group]
    skipped: list[tuple[str, str]]


@dataclass(frozen=True)
class MemoryPass(Pass):
    """Clean samples under conditions that are made on the way, and under attacks.

    Attributes:
        jpeg: corrupted images pass through JPEG, as the files of ImageNet-C did.
        made_attacks: see `attacks`.
        decode: samples, protocol, batch size and which batches are wanted -> those; None for `decoded_batches`.
    """

    has_clean_samples = True
    jpeg: bool = False
    made_attacks: tuple[Attack, ...] = ()
    decode: Callable[[SampleSet, Protocol, int, Callable[[int], bool]], Iterator[Decoded]] | None = None

    @property
    def attacks(self) -> tuple[Attack, ...]:
        return self.made_attacks

    def only(self, positions: range) -> MemoryPass:
        learned = {row for attack in self.made_attacks if attack.learns_from for row in attack.rows}
        kept = [i for i, cell in enumerate(self.cells) if cell.name not in learned or i < len(self.conditions)]
        return replace(
            self,
            samples=some_of(self.samples, positions),
            made_attacks=tuple(attack for attack in self.made_attacks if not attack.learns_from),
            cells=tuple(self.cells[i] for i in kept),
            cell_suites=tuple(self.cell_suites[i] for i in kept),
        )

    def under(self, images: Tensor, ids: list[str], condition: Condition) -> Tensor:
        """uint8 [B, 3, H, W] -> the same under a condition."""
        settings = self.settings
        return apply_condition(
            images,
            ids,
            condition,
            seed=settings.seed,
            jpeg=self.jpeg,
            channel_order=settings.channel_order,
            frost_folder=settings.frost_folder,
            mean=self.normalisation.mean,
            std=self.normalisation.std,
        )

    def run(self, processes: Processes, stored: StoredWork | None, report: PassReport | None, what: str = "") -> Tallied:
        """See `Pass.run`; `what` is said about the progress."""
        lessons = sum(attack.learns_from for attack in self.attacks)
        what = what or ", ".join([*self.suite_names, *(attack.name for attack in self.attacks)])
        own = batch_sizes(self.samples, self.settings.batch_size, processes.rank, processes.world)
        step = counter(report, what, sum(own) * len(self.cells) + lessons)
        mine: dict[int, Tallied] | None
        try:
            mine = self._share(processes, stored, step)
        except PassStoppedError:
            mine = None
        return _gathered(processes, mine, self.cells)

    def _share(self, processes: Processes, stored: StoredWork | None, step: Callable[[int], None]) -> dict[int, Tallied]:
        """The batches of this process, by their numbers."""
        size, rank, world = self.settings.batch_size, processes.rank, processes.world
        done = dict(_finished(stored, processes, self.cells))
        step(sum(len(tallied.ids) + len(tallied.skipped) for tallied in done.values()) * len(self.cells))
        attacker = self.attacker() if self.attacks else None
        decode = self.decode or partial(decoded_batches, device=device_of(self.network))
        batches = decode(self.samples, self.protocol, size, lambda k: k % world == rank and k not in done)
        with Prefetch(self._inputs(batches)) as inputs:
            for number, groups, skipped in inputs:  # what lies between two batches is taken inside
                if attacker is not None:
                    attacker.prepare(step)
                with fits_memory(sum(len(group.ids) for group in groups), self.protocol.size):
                    parts = [self._tallied(group, inputs, attacker, step) for group in groups] or [self._nothing()]
                joined = Tallied.join(parts, self.cells)
                tallied = replace(joined, skipped=[*skipped, *joined.skipped])
                step(len(tallied.skipped) * len(self.cells))
                if stored is not None:
                    stored.save(f"batch-{number:06}", tallied.to_part())
                done[number] = tallied
        return done

    def _inputs(self, batches: Iterator[Decoded]) -> Iterator[_Batch | Tensor]:
        """Every batch, followed by the images of each of its groups under each of the conditions."""
        for decoded in batches:
            batch = self._with_targets(decoded)
            yield batch
            for group in batch.groups:
                calls = (partial(self.under, group.images, group.ids, condition) for condition in self.conditions)
                yield from side_by_side(calls, free_cores(device_of(self.network)))

    def _with_targets(self, decoded: Decoded) -> _Batch:
        """A batch with the targets of its samples; those whose target is damaged are skipped as damaged images are."""
        groups, skipped = [], list(decoded.skipped)
        for samples, images in decoded.groups:
            if len(self.conditions) > 1 and (reason := why_not_corrupted(images)):
                skipped += [(sample.id, reason) for sample in samples]
                continue
            read = [self._target(sample) for sample in samples]
            kept = [i for i, target in enumerate(read) if not isinstance(target, UnreadablePictureError)]
            skipped += [
                (sample.id, str(target))
                for sample, target in zip(samples, read, strict=True)
                if isinstance(target, UnreadablePictureError)
            ]
            if kept:
                shown = images if len(kept) == len(samples) else images[kept]
                groups.append(_Group([samples[i].id for i in kept], [read[i] for i in kept], shown))
        return _Batch(decoded.number, groups, skipped)

    def _target(self, sample: Sample) -> Any:
        """The target, or why it cannot be read."""
        try:
            return self.task.target(sample, self.samples)
        except UnreadablePictureError as error:
            return error

    def _nothing(self) -> Tallied:
        """Of a batch without samples; all processes of a sharded network take part in every batch."""
        nothing = torch.zeros(1, 3, *self.protocol.size, dtype=torch.uint8)
        predict_images(self.task, self.network, nothing, self.normalisation)
        return Tallied([], self.cells, (Tallies(0, {}),) * len(self.cells))

    def _tallied(
        self,
        group: _Group,
        inputs: Iterator[_Batch | Tensor],
        attacker: Attacker | None,
        step: Callable[[int], None],
    ) -> Tallied:
        """Of images of one size; `inputs` has them under the conditions next."""
        ids, targets, clean = group

        def shown() -> Iterator[Tensor]:
            yield from (next(inputs) for _ in self.conditions)  # type: ignore[misc]
            if attacker is not None:
                yield from attacker.rows(clean, targets, ids)

        rows: list[Tallies] = []
        changes = np.zeros((len(self.cells), len(ids), len(CHANGES)), np.float32)
        try:
            for row, images in enumerate(shown()):
                predictions = ask(self._predict, images, self.network, self.protocol.size)
                rows.append(Tallies.stack([self.task.tally(*pair) for pair in zip(predictions, targets, strict=True)]))
                if row >= len(self.conditions):
                    changes[row] = size_of_change(images, clean)
                step(len(ids))
        except TooSmallError as error:
            for _ in self.conditions[len(rows) + 1 :]:
                next(inputs)
            return replace(self._nothing(), skipped=[(name, str(error)) for name in ids])
        return Tallied(ids, self.cells, tuple(rows), changes=changes)

    def _predict(self, images: Tensor) -> list[Any]:
        predictions = predict_images(self.task, self.network, images, self.normalisation)
        if self.told is not None:
            self.told(predictions)
        return predictions

    def scored(self, tallied: Tallied) -> Tallied:
        """With a cell for the worst row of each attack that has several."""
        for attack in (attack for attack in self.attacks if len(attack.rows) > 1):
            worst = self.task.hardest([tallied.row(Condition(row)) for row in attack.rows])
            if worst is not None:
                cell = replace(tallied, cells=(worst_cell(attack),), rows=(worst,), skipped=[])
                tallied = tallied.beside(cell)
        return tallied

    def digest(self, samples: Digest) -> None:
        add_samples(samples, self.samples)

    def describe_data(self) -> dict[str, Any]:
        return self._data("corruptions made in memory" if len(self.conditions) > 1 else "images as they are")

    def describe_corruption(self) -> dict[str, Any]:
        names = {condition.name for condition in self.conditions} - {CLEAN.name}
        if not names:
            return {}
        about: dict[str, Any] = {"seed": self.settings.seed}
        if names - {PATCHES.name}:
            family = "by the size of each image" if self.protocol.keeps_size else family_of_size(*self.protocol.size)
            about |= {"family": family, "channel_order": self.settings.channel_order}
            about["jpeg"] = f"quality {JPEG_QUALITY} after every corruption" if self.jpeg else "no"
        if "frost" in names:
            folder = self.settings.frost_folder
            about["frost"] = str(folder) if folder else "generated textures"
        if PATCHES in self.conditions:
            about |= {"patch": patch_side(self.protocol.size), "patch_share": PATCH_SHARE}
        return about


def some_of(samples: SampleSet, positions: range) -> SampleSet:
    """Those of the positions that the set has."""
    whole = range(len(samples))
    return samples if positions == whole else SomeSamples(samples, [i for i in positions if i in whole])


def worst_cell(attack: Attack) -> Condition:
    """Right under every row of the attack."""
    return Condition(f"{attack.name} (worst)")


def counter(report: PassReport | None, what: str, total: int) -> Callable[[int], None]:
    """A function that counts steps, reports them, and raises where the run was interrupted."""
    count = 0

    def step(steps: int) -> None:
        nonlocal count
        check_interrupted()
        count += steps
        if report is not None:
            report(what, count, max(total, count))

    return step


def _finished(stored: StoredWork | None, processes: Processes, cells: tuple[Condition, ...]) -> Iterator[tuple[int, Tallied]]:
    """(number, tallies) of the batches of this process that an earlier run has finished."""
    for number in stored.numbers("batch") if stored else ():
        if stored is None or number % processes.world != processes.rank:
            continue
        tallied = stored.load(f"batch-{number:06}", lambda part: Tallied.from_part(part, cells))
        if tallied is not None:
            yield number, tallied


def _gathered(processes: Processes, mine: dict[int, Tallied] | None, cells: tuple[Condition, ...]) -> Tallied:
    """The batches of all processes, in their order; None of one that was stopped."""
    parts = processes.gather(mine)
    if any(part is None for part in parts):
        raise PassStoppedError
    batches = {number: tallied for part in parts for number, tallied in part.items()}
    return Tallied.join([batches[number] for number in sorted(batches)], cells)
