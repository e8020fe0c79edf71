"""Which runs the suites that were asked for need. Everything that can be wrong is found here, before the work starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from robustvit.attacks.attack import Attack
from robustvit.attacks.pixel_network import check_network, frozen
from robustvit.corruptions.frost_textures import frost_textures
from robustvit.corruptions.parameters import SEVERITIES, SMALLEST
from robustvit.corruptions.registry import CORRUPTIONS
from robustvit.data.layouts import LayoutError, cifar_c_pictures, imagenet_c_pictures, open_samples, suite_folder
from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol, protocol_of
from robustvit.data.readers.corrupted_pictures import copy_settings, corrupted_folders
from robustvit.data.readers.films import FilmSet, MadeFilms, StoredFilms
from robustvit.data.samples import DatasetSamples, SampleSet, SomeSamples, UnreadablePictureError
from robustvit.evaluation.attacking import ATTACK_SUITE
from robustvit.evaluation.classification import Task
from robustvit.evaluation.conditions import CLEAN, GROUPS, Condition, Damage, conditions_of, names_in, patch_side
from robustvit.evaluation.sequences import FILM_SIZES, film_kinds
from robustvit.models.class_logits import class_logits
from robustvit.runtime.memory import fits_memory, is_out_of_memory
from robustvit.runtime.spelling import nearest
from robustvit.tasks.class_matching import Matching, label_names_of, match_classes

__all__ = ["SUITES", "Job", "Settings", "check_suites", "plan"]

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
    "imagenet-p": "the 10 perturbation sequences of ImageNet-P: the films on disk, or the same made in memory",
    "cifar10-c": "CIFAR-10-C: CORRUPTION.npy and labels.npy",
    "cifar100-c": "CIFAR-100-C, likewise",
}
"""Besides these, every corruption is a suite by its name: "fog"."""
WITHOUT_SEVERITIES = ("clean", "patches", "imagenet-a", "imagenet-r", "imagenet-p")
TRIED = 20
"""Pictures to look at before the work starts, until one fits."""


@dataclass(frozen=True)
class Settings:
    """What a result depends on besides network and pictures; see `evaluate`."""

    protocol: str | None = None
    size: tuple[int, int] | None = None
    limit: int | None = None
    batch_size: int = 32
    jpeg: bool = True
    damage: Damage = field(default_factory=Damage)
    class_map: dict[str, int] | None = None
    attacks: tuple[Attack, ...] = ()
    ignore_orientation: bool = False
    severities: tuple[int, ...] = SEVERITIES
    predictions: bool = False


@dataclass(frozen=True)
class Job:
    """Runs that belong together.

    Attributes:
        suites: that they answer.
        kind: "memory": one task, corruptions made on the way; "files": a task a cell; "sequences": one task, films.
        tasks: what to run.
        cells: of "memory", the conditions of the task and the rows of its attacks; of "files", the condition that each task's
            files show.
        cell_suites: the suite of each cell.
        films: of "sequences".
        left_out: conditions that the suites ask for and the files do not have.
    """

    suites: tuple[str, ...]
    kind: Literal["memory", "files", "sequences"]
    tasks: tuple[Task, ...]
    cells: tuple[Condition, ...] = ()
    cell_suites: tuple[str, ...] = ()
    films: FilmSet | None = None
    left_out: tuple[Condition, ...] = ()


def check_suites(suites: Sequence[str], severities: Sequence[int] = SEVERITIES) -> None:
    """Raises ValueError for a suite that there is not, and for severities that there are not or that no suite has."""
    for suite in suites:
        if suite not in SUITES and suite not in CORRUPTIONS:
            hint = nearest(suite, [*SUITES, *CORRUPTIONS]).removesuffix("?")
            choice = f"choose among {', '.join(SUITES)}, or a corruption by its name"
            raise ValueError(f"there is no suite {suite!r}{hint}; {choice}")
    if not severities or not set(severities) <= set(SEVERITIES):
        raise ValueError(f"severity {', '.join(map(str, severities)) or 'none'} is not possible; give some of 1, 2, 3, 4, 5")
    if tuple(severities) != SEVERITIES and all(suite in WITHOUT_SEVERITIES for suite in suites):
        raise ValueError(
            f"severity {', '.join(map(str, severities))} has no effect on {', '.join(suites) or 'attacks'}; choose a suite "
            "with corruptions, such as common15 or fog"
        )


def plan(model: nn.Module, data: Any, suites: Sequence[str], settings: Settings) -> list[Job]:
    """The jobs for one network.

    Raises:
        ValueError: an unknown suite; files that are missing (LayoutError); classes that do not match (ClassMismatchError);
            pictures that the network cannot take.
    """
    check_suites(suites, settings.severities)
    if settings.damage.frost_folder is not None:
        frost_textures(settings.damage.frost_folder)  # says at once what is wrong with it
    jobs = []
    in_memory = [s for s in suites if s in ("clean", "patches", *GROUPS, *CORRUPTIONS)]
    if isinstance(data, str | Path) and corrupted_folders(Path(data)) and (in_memory or settings.attacks):
        jobs.append(_corrupted_job(model, Path(data), in_memory, settings))
    elif in_memory or settings.attacks:
        jobs.append(_memory_job(model, data, in_memory or ["clean"], settings))
    builders = {"imagenet-c": _imagenet_c, "imagenet-a": _imagenet_subset, "imagenet-r": _imagenet_subset}
    builders |= {"imagenet-p": _sequences, "cifar10-c": _cifar_c, "cifar100-c": _cifar_c}
    jobs += [builders[suite](model, data, suite, settings) for suite in suites if suite in builders]
    for job in jobs:
        if job.kind != "sequences":
            _try_pictures(job)
    return jobs


def _try_pictures(job: Job) -> None:
    """Looks for one picture that the protocol takes, so that a run over thousands that do not fit never starts."""
    task, problem = job.tasks[0], "?"
    for picture, _ in zip(task.pictures, range(TRIED), strict=False):
        try:
            task.protocol.apply(picture.open())
            return
        except UnreadablePictureError:
            return  # it is counted and named; the next ones may be all right
        except ValueError as error:
            problem = f"{picture.id}: {error}"
    raise ValueError(
        f"the pictures of {task.pictures.name} do not fit the protocol {task.protocol.name!r} of {', '.join(job.suites)} "
        f"({problem}); give --protocol model, which resizes them, or another size"
    )


def _pictures(data: Any, settings: Settings, protocol: Protocol, *, suite: str | None = None) -> SampleSet:
    if isinstance(data, str | Path):
        place = suite_folder(data, suite) if suite and Path(data).is_dir() else data
        pictures = open_samples(place, scene_size=protocol.size, ignore_orientation=protocol.ignore_orientation)
    elif hasattr(data, "classes") and hasattr(data, "name"):
        pictures = data
    else:
        pictures = DatasetSamples(data, ignore_orientation=protocol.ignore_orientation)
    if len(pictures) == 0:
        raise LayoutError(f"{pictures.name} has no pictures")
    return _limited(pictures, settings)


def _limited(pictures: SampleSet, settings: Settings) -> SampleSet:
    if settings.limit is None or settings.limit >= len(pictures):
        return pictures
    generator = np.random.default_rng(settings.damage.seed)
    return SomeSamples(pictures, generator.choice(len(pictures), settings.limit, replace=False).tolist())


def _outputs(model: Any, size: tuple[int, int]) -> int:
    """How many classes the network knows: it is asked with a black picture, and has to agree with its `num_classes`."""
    declared = getattr(model, "num_classes", None)
    parameter = next(model.parameters(), torch.zeros(()))
    if parameter.is_meta:  # a network that is only planned with
        return int(declared or 0)
    with fits_memory(1, size), torch.inference_mode():
        output = _answer_to_black(model, torch.zeros(1, 3, *size, device=parameter.device, dtype=parameter.dtype))
    count = class_logits(output, model, 1).shape[1]
    if isinstance(declared, int) and declared != count:
        raise ValueError(
            f"{type(model).__name__} says that it has {declared} classes (num_classes), but returns {count} numbers for a "
            "picture; is it a classifier, and are these its weights?"
        )
    return count


def _answer_to_black(model: nn.Module, picture: torch.Tensor) -> Any:
    was_training = model.training
    try:
        return model.eval()(picture)
    except (RuntimeError, AssertionError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        told = str(error).strip().partition("\n")[0]
        H, W = picture.shape[-2:]
        raise ValueError(
            f"{type(model).__name__} does not take pictures of {H}x{W} pixels ({told}); give a size that it takes"
        ) from error
    finally:
        model.train(was_training)


def _task(
    model: Any,
    pictures: SampleSet,
    protocol: Protocol,
    conditions: tuple[Condition, ...],
    settings: Settings,
    *,
    jpeg: bool = False,
    subset: Literal["a", "r"] | None = None,
    outputs: int | None = None,
) -> Task:
    outputs = _outputs(model, protocol.size) if outputs is None else outputs
    how: Any = dict(class_map=settings.class_map, subset=subset, label_names=label_names_of(model))
    matching = match_classes(pictures.classes, outputs, **how)
    mean, std = astuple(Normalisation.of(model))
    patch = patch_side(protocol.size) if Condition("patches") in conditions else settings.damage.patch
    damage = replace(settings.damage, jpeg=jpeg, patch=patch, mean=mean, std=std)
    return Task(pictures, protocol, conditions, damage, matching, mean, std, settings.batch_size)


def _protocol(own: str, model: nn.Module, settings: Settings, *, published: bool = False) -> Protocol:
    """The protocol that was asked for, else the suite's own. Numbers for published files were made without EXIF tags."""
    protocol = protocol_of(settings.protocol or own, model, settings.size)
    return replace(protocol, ignore_orientation=published or settings.ignore_orientation)


def _memory_job(model: nn.Module, data: Any, suites: Sequence[str], settings: Settings) -> Job:
    asked = _asked(suites, settings)
    conditions = (CLEAN, *asked)
    protocol = _protocol("model", model, settings)
    _check_size(protocol, conditions)
    task = _task(model, _pictures(data, settings, protocol), protocol, conditions, settings)
    task = replace(task, attacks=settings.attacks)
    _check_attacks(model, task)
    cell_suites = ["clean", *asked.values()]
    cell_suites += [ATTACK_SUITE] * (len(task.rows) - len(conditions))
    return Job(tuple(suites), "memory", (task,), task.rows, tuple(cell_suites))


def _asked(suites: Sequence[str], settings: Settings) -> dict[Condition, str]:
    """Conditions in the order of the suites -> the first suite that asks for them."""
    asked: dict[Condition, str] = {}
    for suite in suites:
        for condition in conditions_of(suite, settings.severities):
            asked.setdefault(condition, suite)
    return asked


def _corrupted_job(model: nn.Module, root: Path, suites: Sequence[str], settings: Settings) -> Job:
    """The corruptions that a folder has as files, as `robustvit corrupt` writes them."""
    if settings.attacks or any(suite in ("clean", "patches") for suite in suites):
        what = "attacks" if settings.attacks else "the suite " + next(s for s in suites if s in ("clean", "patches"))
        raise LayoutError(
            f"{root} has corrupted copies of pictures (CORRUPTION/SEVERITY/...), and {what} needs clean ones; give their "
            "folder, or choose suites of corruptions, such as common15 or fog"
        )
    asked = _asked(suites, settings)
    names = tuple(dict.fromkeys(condition.name for condition in asked))
    found = imagenet_c_pictures(root, names, settings.severities)
    assert found is not None
    protocol = _protocol(_copied_protocol(root, model, settings), model, settings, published=True)
    job = _files_job(model, tuple(suites), found, protocol, settings)
    left_out = tuple(condition for condition in asked if condition not in job.cells)
    return replace(job, cell_suites=tuple(asked[cell] for cell in job.cells), left_out=left_out)


def _copied_protocol(root: Path, model: nn.Module, settings: Settings) -> str:
    """A centre crop of copies that were cropped to the size of the input already; whole or other ones as the network says."""
    size, copied = protocol_of("none", model, settings.size).size, copy_settings(root)
    return "crop" if copied is None or size == (copied.get("size"),) * 2 else "model"


def _check_attacks(model: nn.Module, task: Task) -> None:
    if task.attacks:
        network = task.pixel_network(model)
        with fits_memory(1, task.protocol.size), frozen(network):
            check_network(network, task.protocol.size)
            for attack in task.attacks:
                attack.check(network, task.protocol.size)


def _check_size(protocol: Protocol, conditions: Sequence[Condition]) -> None:
    if len(conditions) > 1 and min(protocol.size) < SMALLEST:
        H, W = protocol.size
        raise ValueError(f"corruptions need pictures of at least {SMALLEST}x{SMALLEST} pixels; this network takes {H}x{W}")


def _imagenet_c(model: nn.Module, data: Any, suite: str, settings: Settings) -> Job:
    if isinstance(data, str | Path):
        root = suite_folder(data, suite)
        found = imagenet_c_pictures(root, names_in(suite), settings.severities)
        if found:
            own = _copied_protocol(root, model, settings)
            job = _files_job(model, (suite,), found, _protocol(own, model, settings, published=True), settings)
            missing = tuple(c for c in conditions_of(suite, settings.severities) if c not in job.cells)
            return replace(job, left_out=missing)
        if root != Path(data):
            raise LayoutError(
                f"{root} is no ImageNet-C; expected {root}/CORRUPTION/SEVERITY/CLASS/PICTURE.JPEG. Without that folder, the "
                "corruptions are made in memory"
            )
    protocol = _protocol("imagenet-c", model, settings)
    conditions = (CLEAN, *conditions_of(suite, settings.severities))
    _check_size(protocol, conditions)
    task = _task(model, _pictures(data, settings, protocol), protocol, conditions, settings, jpeg=settings.jpeg)
    return Job((suite,), "memory", (task,), conditions, (suite,) * len(conditions))


def _imagenet_subset(model: nn.Module, data: Any, suite: str, settings: Settings) -> Job:
    protocol = _protocol("model", model, settings, published=True)
    pictures = _pictures(data, settings, protocol, suite=suite)
    subset: Literal["a", "r"] = "a" if suite == "imagenet-a" else "r"
    return Job((suite,), "files", (_task(model, pictures, protocol, (CLEAN,), settings, subset=subset),), (CLEAN,), (suite,))


def _sequences(model: nn.Module, data: Any, suite: str, settings: Settings) -> Job:
    protocol = _protocol("none", model, replace(settings, protocol=None))  # films have a fixed one
    if protocol.size not in FILM_SIZES:
        sizes = " or ".join(f"{H}x{W}" for H, W in FILM_SIZES)
        H, W = protocol.size
        raise ValueError(f"{suite} has films of {sizes} pixels and this network takes {H}x{W}; give a size if it takes more")
    benchmark = FILM_SIZES[protocol.size]
    kinds = film_kinds(benchmark)
    root = suite_folder(data, suite) if isinstance(data, str | Path) else None
    if root is not None and StoredFilms.found(root):
        mean, std = astuple(Normalisation.of(model))
        no_pictures = SomeSamples(DatasetSamples((), str(root)), ())
        task = Task(no_pictures, protocol, (CLEAN,), settings.damage, Matching(0, ()), mean, std, settings.batch_size)
        return Job((suite,), "sequences", (task,), films=StoredFilms(root, kinds))
    task = _task(model, _pictures(data, settings, protocol), protocol, (CLEAN,), settings)
    return Job((suite,), "sequences", (task,), films=MadeFilms(task.pictures, kinds, benchmark, settings.damage.seed))


def _cifar_c(model: nn.Module, data: Any, suite: str, settings: Settings) -> Job:
    if not isinstance(data, str | Path):
        raise ValueError(f"the suite {suite!r} reads files; give the folder that has them")
    fits = protocol_of("none", model, settings.size).size == (32, 32)
    protocol = _protocol("none" if fits else "squash", model, settings)
    place, kind = suite_folder(data, suite), suite.removesuffix("-c")
    found = cifar_c_pictures(place, names_in(suite), settings.severities, kind=kind)
    return _files_job(model, (suite,), found, protocol, settings)


def _files_job(
    model: nn.Module,
    suites: tuple[str, ...],
    found: dict[tuple[str, int], SampleSet],
    protocol: Protocol,
    settings: Settings,
) -> Job:
    cells = tuple(Condition(name, severity) for name, severity in found)
    chosen = _same_pictures(list(found.values()), settings)
    outputs = _outputs(model, protocol.size)  # asked once, not for each cell
    tasks = tuple(_task(model, pictures, protocol, (CLEAN,), settings, outputs=outputs) for pictures in chosen)
    return Job(suites, "files", tasks, cells, suites[:1] * len(cells))


def _same_pictures(sets: list[SampleSet], settings: Settings) -> list[SampleSet]:
    """As many as `limit` allows, the same ones of every cell."""
    if settings.limit is None:
        return sets
    ids = [[picture.id for picture in pictures] for pictures in sets]
    common = sorted(set(ids[0]).intersection(*ids[1:]))
    if settings.limit >= len(common):
        return sets
    drawn = np.random.default_rng(settings.damage.seed).choice(len(common), settings.limit, replace=False)
    wanted = {common[i] for i in drawn}
    return [SomeSamples(p, [i for i, name in enumerate(names) if name in wanted]) for p, names in zip(sets, ids, strict=True)]
