"""What suites make their passes of: protocol, samples and task for a network and the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from robustvit.attacks.attack import Attack
from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.corruptions.parameters import SMALLEST
from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol, protocol_of
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import DatasetSamples, SampleSet, SomeSamples
from robustvit.evaluation.attacking import ATTACK_SUITE
from robustvit.evaluation.files_pass import FilesPass
from robustvit.evaluation.passes import MemoryPass
from robustvit.evaluation.settings import Settings
from robustvit.models.functions import own_protocol
from robustvit.tasks.base import Task

if TYPE_CHECKING:
    from robustvit.evaluation.suites.suite import Suite

__all__ = [
    "bound_task",
    "chosen_samples",
    "files_pass",
    "input_size",
    "memory_pass",
    "plain_pass",
    "protocol_for",
    "samples_for",
]


def input_size(network: nn.Module, settings: Settings) -> tuple[int, int]:
    """(H, W) of the input."""
    return protocol_of("none", network, settings.size).size


def protocol_for(network: nn.Module, settings: Settings, own: str, *, published: bool = False) -> Protocol:
    """The protocol that was asked for, else the suite's own.

    Args:
        network: to be measured.
        settings: of the run.
        own: name of the suite's protocol.
        published: the files are published ones, whose numbers were made without regard to EXIF tags.
    """
    default = settings.task.protocol or own_protocol(network, settings.size, own)
    how: Any = dict(crop_pct=settings.crop_pct, interpolation=settings.interpolation)
    protocol = protocol_of(settings.protocol or default, network, settings.size, **how)
    return replace(protocol, ignore_orientation=published or settings.ignore_orientation)


def samples_for(settings: Settings, protocol: Protocol, place: str | Path | None = None) -> SampleSet:
    """The dataset of the settings, or what lies at `place`; as many samples as the limit allows, drawn by the seed."""
    data, upright = settings.data, protocol.ignore_orientation
    if settings.is_path:
        where = data if place is None else place
        samples = settings.task.open(where, scene_size=protocol.size, ignore_orientation=upright)
    elif hasattr(data, "classes") and hasattr(data, "name"):
        samples = data
    else:
        samples = DatasetSamples(data, ignore_orientation=upright)
    if len(samples) == 0:
        raise LayoutError(f"{samples.name} has no images")
    return chosen_samples(samples, settings)


def chosen_samples(samples: SampleSet, settings: Settings) -> SampleSet:
    """As many of the samples as the limit allows, drawn by the seed."""
    if settings.limit is None or settings.limit >= len(samples):
        return samples
    generator = np.random.default_rng(settings.seed)
    return SomeSamples(samples, generator.choice(len(samples), settings.limit, replace=False).tolist())


def bound_task(network: nn.Module, settings: Settings, samples: SampleSet, protocol: Protocol, **options: Any) -> Task:
    """The task for the network and these samples; `options` are those of `Task.bind`."""
    return settings.task.bind(network, samples, protocol.size, class_map=settings.class_map, **options)


def memory_pass(
    network: nn.Module,
    settings: Settings,
    suites: Sequence[Suite],
    conditions: Mapping[Condition, str],
    protocol: Protocol,
    *,
    jpeg: bool = False,
    attacks: tuple[Attack, ...] = (),
) -> MemoryPass:
    """A pass over the samples of the settings, clean and under conditions that are made on the way.

    Args:
        network: to be measured.
        settings: of the run.
        suites: that it answers.
        conditions: that the samples meet -> name of the suite that asks for it.
        protocol: how an image becomes the input.
        jpeg: see `MemoryPass`.
        attacks: to make besides.

    Raises:
        ValueError: the images are too small to be corrupted.
    """
    if len(conditions) > 1 and min(protocol.size) < SMALLEST:
        H, W = protocol.size
        raise ValueError(f"corruptions need images of at least {SMALLEST}x{SMALLEST} pixels; this network takes {H}x{W}")
    samples = samples_for(settings, protocol)
    rows = tuple(Condition(row) for attack in attacks for row in attack.rows)
    return MemoryPass(
        network=network,
        suites=tuple(suites),
        cells=(*conditions, *rows),
        cell_suites=(*conditions.values(), *(ATTACK_SUITE for _ in rows)),
        task=bound_task(network, settings, samples, protocol),
        samples=samples,
        protocol=protocol,
        normalisation=Normalisation.of(network),
        settings=settings,
        jpeg=jpeg,
        made_attacks=attacks,
    )


def plain_pass(
    network: nn.Module, settings: Settings, suite: Suite, samples: SampleSet, protocol: Protocol, **options: Any
) -> FilesPass:
    """A pass over the samples of another dataset, as they are.

    Args:
        network: to be measured.
        settings: of the run.
        suite: that it answers.
        samples: to measure on.
        protocol: how an image becomes the input.
        options: of `Task.bind`.
    """
    task = bound_task(network, settings, samples, protocol, **options)
    return FilesPass(
        network=network,
        suites=(suite,),
        cells=(CLEAN,),
        cell_suites=(suite.name,),
        task=task,
        samples=samples,
        protocol=protocol,
        normalisation=Normalisation.of(network),
        settings=settings,
        sets=((task, samples),),
    )


def files_pass(
    network: nn.Module,
    settings: Settings,
    suites: Sequence[Suite],
    found: Mapping[tuple[str, int], SampleSet],
    protocol: Protocol,
    asked: Sequence[Condition] = (),
) -> FilesPass:
    """A pass over files that show conditions: one set of samples per cell.

    Args:
        network: to be measured.
        settings: of the run.
        suites: that it answers.
        found: (condition, severity) -> samples.
        protocol: how an image becomes the input.
        asked: conditions that the suites ask for.
    """
    cells = tuple(Condition(*cell) for cell in found)
    chosen = _same_samples(list(found.values()), settings)
    first = bound_task(network, settings, chosen[0], protocol)
    known = first.known()  # the network is asked once, not for each cell
    tasks = [first, *(bound_task(network, settings, samples, protocol, **known) for samples in chosen[1:])]
    return FilesPass(
        network=network,
        suites=tuple(suites),
        cells=cells,
        cell_suites=(suites[0].name,) * len(cells),
        task=first,
        samples=chosen[0],
        protocol=protocol,
        normalisation=Normalisation.of(network),
        settings=settings,
        left_out=tuple(condition for condition in asked if condition not in cells),
        sets=tuple(zip(tasks, chosen, strict=True)),
    )


def _same_samples(sets: list[SampleSet], settings: Settings) -> list[SampleSet]:
    """As many as the limit allows, the same ones of every cell."""
    if settings.limit is None:
        return sets
    ids = [[sample.id for sample in samples] for samples in sets]
    common = sorted(set(ids[0]).intersection(*ids[1:]))
    if settings.limit >= len(common):
        return sets
    drawn = np.random.default_rng(settings.seed).choice(len(common), settings.limit, replace=False)
    wanted = {common[i] for i in drawn}
    return [
        SomeSamples(samples, [i for i, name in enumerate(names) if name in wanted])
        for samples, names in zip(sets, ids, strict=True)
    ]
