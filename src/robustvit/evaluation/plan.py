"""Which runs the suites that were asked for need. Everything that can be wrong is found here, before the work starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from robustvit.corruptions.parameters import SMALLEST
from robustvit.corruptions.registry import corruption_names
from robustvit.data.layouts import LayoutError, cifar_c_pictures, imagenet_c_pictures, open_pictures, suite_folder
from robustvit.data.pictures import DatasetPictures, PictureSet, SomePictures
from robustvit.data.protocols import Protocol, normalisation_of, protocol_of
from robustvit.evaluation.classes import match_classes
from robustvit.evaluation.classification import Task
from robustvit.evaluation.conditions import CLEAN, GROUPS, Condition, Damage, conditions_of
from robustvit.evaluation.sequences import FILM_SIZES

__all__ = ["SUITES", "Job", "Settings", "plan"]

SUITES = {
    "clean": "the pictures as they are",
    "common15": "the 15 common corruptions at 5 severities, made in memory",
    "all19": "all 19 corruptions",
    "extra4": "the 4 extra corruptions",
    "noise": "gaussian_noise, shot_noise and impulse_noise",
    "blur": "defocus_blur, glass_blur, motion_blur and zoom_blur",
    "weather": "snow, frost, fog and brightness",
    "digital": "contrast, elastic_transform, pixelate and jpeg_compression",
    "patches": "a random tenth of the patches replaced by noise",
    "imagenet-c": "ImageNet-C: the files on disk, or the same made in memory",
    "imagenet-a": "ImageNet-A; only its 200 classes compete",
    "imagenet-r": "ImageNet-R; only its 200 classes compete",
    "imagenet-p": "the 10 perturbation sequences of ImageNet-P, made in memory",
    "cifar10-c": "CIFAR-10-C: CORRUPTION.npy and labels.npy",
    "cifar100-c": "CIFAR-100-C, likewise",
}


@dataclass(frozen=True)
class Settings:
    """What a result depends on besides network and pictures; see `evaluate`."""

    protocol: str = "model"
    size: tuple[int, int] | None = None
    limit: int | None = None
    batch_size: int = 32
    jpeg: bool = True
    damage: Damage = field(default_factory=Damage)
    class_map: dict[str, int] | None = None


@dataclass(frozen=True)
class Job:
    """Runs that belong together.

    Attributes:
        suite: what to call them in the result.
        kind: "memory": one task, corruptions made on the way; "files": a task a cell; "sequences": one task, every
            picture becomes sequences.
        tasks: what to run.
        cells: of "files", the condition that each task's files show.
    """

    suite: str
    kind: Literal["memory", "files", "sequences"]
    tasks: tuple[Task, ...]
    cells: tuple[Condition, ...] = ()


def plan(model: nn.Module, data: Any, suites: Sequence[str], settings: Settings) -> list[Job]:
    """The jobs for one network.

    Raises:
        ValueError: an unknown suite; files that are missing (LayoutError); classes that do not match (ClassMismatchError).
    """
    if wrong := [s for s in suites if s not in SUITES]:
        raise ValueError(f"there is no suite {wrong[0]!r}; choose among {', '.join(SUITES)}")
    jobs = []
    in_memory = [s for s in suites if s in ("clean", "patches", *GROUPS)]
    if in_memory:
        jobs.append(_memory_job(model, data, in_memory, settings))
    builders = {"imagenet-c": _imagenet_c, "imagenet-a": _imagenet_subset, "imagenet-r": _imagenet_subset}
    builders |= {"imagenet-p": _sequences, "cifar10-c": _cifar_c, "cifar100-c": _cifar_c}
    jobs += [builders[suite](model, data, suite, settings) for suite in suites if suite in builders]
    return jobs


def _pictures(data: Any, settings: Settings, protocol: Protocol, *, suite: str | None = None) -> PictureSet:
    if isinstance(data, str | Path):
        place = suite_folder(data, suite) if suite and Path(data).is_dir() else data
        pictures = open_pictures(place, scene_size=protocol.size)
    elif hasattr(data, "classes") and hasattr(data, "name"):
        pictures = data
    else:
        pictures = DatasetPictures(data)
    return _limited(pictures, settings)


def _limited(pictures: PictureSet, settings: Settings) -> PictureSet:
    if len(pictures) == 0:
        raise LayoutError(f"{pictures.name} has no pictures")
    if settings.limit is None or settings.limit >= len(pictures):
        return pictures
    generator = np.random.default_rng(settings.damage.seed)
    return SomePictures(pictures, generator.choice(len(pictures), settings.limit, replace=False).tolist())


def _task(
    model: Any,
    pictures: PictureSet,
    protocol: Protocol,
    conditions: tuple[Condition, ...],
    settings: Settings,
    *,
    damage: Damage | None = None,
    subset: Literal["a", "r"] | None = None,
) -> Task:
    targets, columns = match_classes(pictures.classes, int(model.num_classes), class_map=settings.class_map, subset=subset)
    mean, std = normalisation_of(model)
    used = damage or settings.damage
    return Task(pictures, protocol, conditions, used, targets, columns, mean, std, settings.batch_size)


def _memory_job(model: nn.Module, data: Any, suites: Sequence[str], settings: Settings) -> Job:
    conditions = tuple(dict.fromkeys([CLEAN, *(c for suite in suites for c in conditions_of(suite))]))
    protocol = protocol_of(settings.protocol, model, settings.size)
    if len(conditions) > 1 and min(protocol.size) < SMALLEST:
        H, W = protocol.size
        raise ValueError(f"corruptions need pictures of at least {SMALLEST}x{SMALLEST} pixels; this network takes {H}x{W}")
    return Job(
        "+".join(suites), "memory", (_task(model, _pictures(data, settings, protocol), protocol, conditions, settings),)
    )


def _imagenet_c(model: nn.Module, data: Any, suite: str, settings: Settings) -> Job:
    names = corruption_names("common15")
    found = imagenet_c_pictures(suite_folder(data, suite), names) if isinstance(data, str | Path) else None
    if found:
        return _files_job(model, suite, found, protocol_of("crop", model, settings.size), settings)
    protocol = protocol_of("imagenet-c", model, settings.size)
    damage = replace(settings.damage, jpeg=settings.jpeg)
    conditions = (CLEAN, *conditions_of(suite))
    return Job(
        suite, "memory", (_task(model, _pictures(data, settings, protocol), protocol, conditions, settings, damage=damage),)
    )


def _imagenet_subset(model: nn.Module, data: Any, suite: str, settings: Settings) -> Job:
    protocol = protocol_of(settings.protocol, model, settings.size)
    pictures = _pictures(data, settings, protocol, suite=suite)
    subset: Literal["a", "r"] = "a" if suite == "imagenet-a" else "r"
    return Job(suite, "files", (_task(model, pictures, protocol, (CLEAN,), settings, subset=subset),), (CLEAN,))


def _sequences(model: nn.Module, data: Any, suite: str, settings: Settings) -> Job:
    protocol = protocol_of("none", model, settings.size)
    if protocol.size not in FILM_SIZES:
        sizes = " or ".join(f"{H}x{W}" for H, W in FILM_SIZES)
        H, W = protocol.size
        raise ValueError(f"{suite} makes films of {sizes} pixels and this network takes {H}x{W}; give a size if it takes more")
    return Job(suite, "sequences", (_task(model, _pictures(data, settings, protocol), protocol, (CLEAN,), settings),))


def _cifar_c(model: nn.Module, data: Any, suite: str, settings: Settings) -> Job:
    if not isinstance(data, str | Path):
        raise ValueError(f"the suite {suite!r} reads files; give the folder that has them")
    own = protocol_of("none", model, settings.size)
    protocol = own if own.size == (32, 32) else protocol_of("squash", model, settings.size)
    found = cifar_c_pictures(suite_folder(data, suite), corruption_names("common15"))
    return _files_job(model, suite, found, protocol, settings)


def _files_job(
    model: nn.Module, suite: str, found: dict[tuple[str, int], PictureSet], protocol: Protocol, settings: Settings
) -> Job:
    cells = tuple(Condition(name, severity) for name, severity in found)
    tasks = tuple(_task(model, _limited(p, settings), protocol, (CLEAN,), settings) for p in found.values())
    return Job(suite, "files", tasks, cells)
