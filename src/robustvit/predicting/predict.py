"""`predict`: what a network says about images or a film, as files.

Of a segmenter      labels/IMAGE.png, overlays/IMAGE.jpg, legend.png; labels-corrupted/IMAGE.png where images are corrupted too
Of a detector       overlays/IMAGE.jpg, detections.json, legend.png; detections-corrupted.json where images are corrupted too
Of a classifier     the best answers with their probabilities, in the table
Of all              predictions.csv, predictions.json; comparisons/IMAGE.jpg where images are corrupted too
Of a film           predictions.mp4 in place of overlays and comparisons
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import astuple, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import nn

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.corruptions.frost_textures import frost_textures
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.registry import CORRUPTIONS, ChannelOrder
from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol, protocol_of
from robustvit.data.samples import SampleSet
from robustvit.evaluation.evaluate import package_versions
from robustvit.evaluation.unfinished import ForeignFileError, begin_work, check_owner, end_work, stored_json, title_of
from robustvit.models.functions import Predict, as_network, own_protocol
from robustvit.predicting.destinations import COMPARISONS, FILM, Destination, FilmFile, ImageFolders
from robustvit.predicting.films import FilmFrames, frame_id
from robustvit.predicting.given_images import images_at
from robustvit.predicting.given_place import check_place
from robustvit.predicting.job import Job, Totals, record_rows, run_job, table_rows
from robustvit.predicting.result import ABOUT, TABLE, Predicted
from robustvit.runtime.damage import set_aside
from robustvit.runtime.json_lists import write_json_list
from robustvit.runtime.locking import locking_output
from robustvit.runtime.precision import Precision, agreed_precision
from robustvit.runtime.processes import Processes, join_processes
from robustvit.runtime.progress import progress_bar
from robustvit.runtime.spelling import nearest
from robustvit.runtime.stored_work import StoredWork
from robustvit.runtime.tables import write_csv
from robustvit.tasks.base import Task
from robustvit.tasks.options import PREDICTION_FORMS
from robustvit.tasks.prediction_form import PredictionForm
from robustvit.tasks.registry import task_for

__all__ = ["Predicted", "predict"]

Report = Callable[[str, int, int], None]
"""Callback for progress: (what is being done, images done, in all)."""
UNFINISHED_RECORD = "unfinished/run.json"
KEEPING = ("native", "none")
"""Protocols that leave images as they are."""


@locking_output
def predict(
    model: nn.Module | Predict,
    images: Any,
    output: str | Path,
    *,
    name: str = "",
    task: str | Task | None = None,
    form: PredictionForm | None = None,
    corruption: str | None = None,
    severity: int = 3,
    seed: int = 0,
    channel_order: ChannelOrder = "rgb",
    frost_folder: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    protocol: str | None = None,
    size: tuple[int, int] | None = None,
    ignore_orientation: bool = False,
    batch_size: int = 4,
    precision: Precision = "fp32",
    resume: bool = False,
    report: Report | bool | None = None,
) -> Predicted:
    """Writes what a network says about images.

    Args:
        model: a network of any task, or a function from a list of uint8 images to answers (`models.functions`).
        images: an image, a folder with all images below it, a film, or a dataset as `evaluate` takes it.
        output: folder for the files. Those of another run are not replaced.
        name: of the network, for predictions.json; by default its architecture.
        task: by its name, or with options, as `Segmentation(inference=Inference(window=(512, 512)))`.
        form: of the files, with options, as `ClassForm(top=10)`; by default that of the task.
        corruption: one of `CORRUPTIONS`: the images are predicted under it, too, and compared.
        severity, seed, channel_order, frost_folder: of the corruption, see `corrupt`.
        split: of a dataset that has several: "test", say, whose label maps are withheld.
        limit: only the first so many images, or frames.
        protocol: of `PROTOCOLS`; by default that of the task, or of the network.
        size: (H, W) of the input, other than the network's own.
        ignore_orientation: take pixels as they are stored, whatever the EXIF tag of cameras says.
        batch_size: images at once.
        precision: in which the network computes, see `evaluate`; predictions.json says for which share of the first batch that
            changes the predictions.
        resume: go on with what is in `output`. A run that is finished there, with all its files, is not repeated.
        report: callback for progress; True shows a bar on stderr.

    Raises:
        UnfinishedRunError: there is an unfinished run in `output`: another one, or this one and `resume` is False.
        FinishedRunError, ForeignFileError: there are files of another run in `output`, or of somebody else.
        ValueError: an option is not possible, or no image can be predicted.
    """
    conditions = _conditions(corruption, severity)
    for what, number in (("limit", limit), ("batch_size", batch_size)):
        if number is not None and number < 1:
            raise ValueError(f"{what}={number} is not possible; give at least 1")
    if frost_folder is not None:
        frost_textures(Path(frost_folder))  # says at once what is wrong with it
    network, folder = as_network(model), Path(output)
    chosen = task_for(task, [network])
    form = form or _form(chosen)
    chosen_protocol = protocol or chosen.protocol or own_protocol(network, size)
    way = replace(protocol_of(chosen_protocol, network, size), ignore_orientation=ignore_orientation)
    _check_protocol(chosen, way)
    about: Any = dict(split=split, limit=limit, ignore_orientation=ignore_orientation)
    check_place(images, chosen)
    samples = images_at(images, chosen, size=way.size, output=folder, **about)
    bound = chosen.bind_images(network, samples, way.size)
    form.check(bound)
    job = Job(
        name=name or _architecture(network),
        network=network,
        task=bound,
        form=form,
        samples=samples,
        protocol=way,
        normalisation=Normalisation.of(network),
        conditions=conditions,
        seed=seed,
        channel_order=channel_order,
        frost_folder=Path(frost_folder) if frost_folder is not None else None,
        batch_size=batch_size,
    )
    with progress_bar() if report is True else nullcontext(report or None) as bar, join_processes() as processes:
        job = replace(job, precision=agreed_precision(precision, [network], processes))
        return _predict_into(folder, job, processes, resume, bar)


def _conditions(corruption: str | None, severity: int) -> tuple[Condition, ...]:
    if corruption is None:
        return (CLEAN,)
    if corruption not in CORRUPTIONS:
        known = ", ".join(CORRUPTIONS)
        raise ValueError(f"there is no corruption {corruption!r}{nearest(corruption, CORRUPTIONS)} (choose among {known})")
    if severity not in SEVERITIES:
        raise ValueError(f"severity {severity} is not possible; give one of {', '.join(map(str, SEVERITIES))}")
    return CLEAN, Condition(corruption, severity)


def _check_protocol(task: Task, protocol: Protocol) -> None:
    """Predictions of places are in the coordinates of the image, which therefore keeps its size."""
    if task.is_dense and protocol.name not in KEEPING:
        raise ValueError(
            f"--protocol {protocol.name} changes the size of images, and what {task.name} predicts would not fit them; leave "
            "it out (--fit resizes what the network sees, and predictions have the size of the image)"
        )


def _form(task: Task) -> PredictionForm:
    if task.name not in PREDICTION_FORMS:
        raise ValueError(f"{task.name} has no form of predictions as files; {', '.join(PREDICTION_FORMS)} have one")
    return PREDICTION_FORMS[task.name]()


def _architecture(network: nn.Module) -> str:
    return (getattr(network, "pretrained_cfg", None) or {}).get("architecture") or type(network).__name__


def _predict_into(output: Path, job: Job, processes: Processes, resume: bool, report: Report | None) -> Predicted:
    own = processes.gather(job.fingerprint())[0]
    destination = _destination(output, job)
    finished = _finished(output, own, destination)
    if finished is not None and resume and _is_whole(output, job, destination, finished):
        processes.gather(None)
        if processes.rank == 0:
            end_work(output)
        return finished
    start = time.perf_counter()
    title = title_of([job.name], job.samples.name, map(str, job.conditions))
    stored = begin_work(output, own, title, resume, processes)
    try:
        run_job(job, destination, processes, stored, report if processes.rank == 0 else None)
    except BaseException:
        if processes.world == 1 and not stored.numbers("batch"):
            end_work(output)  # nothing is finished; it is in nobody's way
        raise
    processes.gather(None)
    result = None
    if processes.rank == 0:
        result = _assembled(output, job, destination, stored, start)
        end_work(output)
    return processes.gather(result)[0]


def _destination(output: Path, job: Job) -> Destination:
    if isinstance(job.samples, FilmFrames):
        frames = output / "unfinished" / "job-frames"
        return FilmFile(output, job.task, job.form, frames, job.samples.rate, has_corrupted=job.corrupts)
    return ImageFolders(output, job.task, job.form, job.samples, has_corrupted=job.corrupts)


def _finished(output: Path, fingerprint: str, destination: Destination) -> Predicted | None:
    """What is finished in `output`, if it is of this very run; None where there is nothing, or something damaged."""
    stored = stored_json(output / ABOUT)
    if stored is None:
        _check_free(output, destination)
        return None
    try:
        title = title_of([stored["network"]["name"]], stored["images"]["name"], stored["shares"])
    except (KeyError, TypeError, AttributeError):
        title = "of which nobody knows what it is of"
    check_owner(output, "", f"{title}, {stored.get('created')}", stored["fingerprint"], fingerprint)
    try:
        return Predicted.from_json(stored)
    except (TypeError, KeyError, ValueError) as error:
        set_aside(output / ABOUT, error)
        return None


def _check_free(output: Path, destination: Destination) -> None:
    """Raises ForeignFileError where files lie in the way that no run of ours has left."""
    if (output / UNFINISHED_RECORD).is_file():
        return  # `begin_work` finds out whose that is
    ours = [TABLE, FILM, COMPARISONS, *(name.partition("/")[0] for name in destination.names)]
    if found := [name for name in ours if (output / name).exists()]:
        raise ForeignFileError(
            f"{output / found[0]} is there already, and nothing says that it is of this run; give another folder (--output), "
            "or move it away"
        )


def _is_whole(output: Path, job: Job, destination: Destination, finished: Predicted) -> bool:
    """Whether the files of a finished run are still there."""
    skipped = {name for name, _ in finished.skipped}
    ids = _ids(job.samples, finished.images["predicted"] + len(skipped))
    files = (path for name in ids if name not in skipped for path in destination.kept(name))
    return all((output / name).is_file() for name in (TABLE, *destination.single)) and all(path.is_file() for path in files)


def _ids(samples: SampleSet, count: int) -> Iterator[str]:
    """Of the `count` images; a film is not decoded for that."""
    at = getattr(samples, "at", None)
    if isinstance(samples, FilmFrames):
        return map(frame_id, range(count))
    return (at(i).id for i in range(len(samples))) if at is not None else (sample.id for sample in samples)


def _assembled(output: Path, job: Job, destination: Destination, stored: StoredWork, start: float) -> Predicted:
    """The table, lists, the film and predictions.json, which comes last: it says that the run is finished."""
    totals = Totals()
    write_csv(output / TABLE, table_rows(job, stored, totals))
    if not totals.images or totals.shares is None:
        (output / TABLE).unlink()
        end_work(output)
        told = f"; the first is {': '.join(totals.skipped[0])}" if totals.skipped else ""
        raise ValueError(f"no image of {job.samples.name} could be predicted{told}")
    destination.finish()
    for place, name in enumerate(destination.record_files):
        write_json_list(output / name, record_rows(stored, place))
    means = totals.shares / totals.images
    classes = job.form.classes(job.task)
    mean, std = astuple(job.normalisation)
    result = Predicted(
        task=job.task.name,
        network={
            "name": job.name,
            "parameters": sum(p.numel() for p in job.network.parameters()),
            "is_untrained": getattr(job.network, "is_untrained", None),
        },
        images={"name": job.samples.name, "predicted": totals.images, "kind": job.kind_of_images, **job.ids},
        protocol={**job.protocol.describe(), "mean": mean, "std": std, **job.check_precision()},
        corruption=_described(job),
        form=job.form.describe(job.task),
        files=(*destination.names, TABLE),
        counted=job.form.counted,
        shares={
            str(condition): dict(zip(classes, map(float, row), strict=True))
            for condition, row in zip(job.conditions, means, strict=True)
        },
        skipped=tuple(totals.skipped),
        versions=package_versions(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=time.perf_counter() - start,
        fingerprint=stored.fingerprint,
    )
    result.save(output)
    return result


def _described(job: Job) -> dict[str, Any]:
    if len(job.conditions) == 1:
        return {}
    _, condition = job.conditions
    frost = str(job.frost_folder) if job.frost_folder is not None else "generated textures"
    about = {"name": condition.name, "severity": condition.severity, "seed": job.seed, "channel_order": job.channel_order}
    return about | ({"frost": frost} if condition.name == "frost" else {})
