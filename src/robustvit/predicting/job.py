"""One network over all images: batch by batch, each kept when its files are written, so that an interrupted run can go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor, nn

from robustvit.attacks.pixel_network import device_of
from robustvit.corruptions.conditions import CLEAN, Condition, apply_condition
from robustvit.corruptions.frost_textures import frost_textures
from robustvit.corruptions.registry import ChannelOrder
from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol
from robustvit.data.sample_digest import add_samples
from robustvit.data.samples import SampleSet
from robustvit.evaluation.network_outputs import outputs_part
from robustvit.evaluation.passes import PassReport, counter
from robustvit.layers.linear import quickened
from robustvit.predicting.destinations import Destination, Shown
from robustvit.predicting.films import FilmFrames
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.runtime.fingerprint import VERSION, Digest, fingerprint
from robustvit.runtime.memory import fits_memory
from robustvit.runtime.precision import Precision, answering_in
from robustvit.runtime.prefetch import Prefetch
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import Part, StoredWork
from robustvit.tasks.base import Task
from robustvit.tasks.passes import Decoded, decoded_batches
from robustvit.tasks.prediction_form import PredictionForm
from robustvit.tasks.too_small import TooSmallError, ask, why_not_corrupted

__all__ = ["Job", "Totals", "batch_name", "record_rows", "run_job", "table_rows"]

HEADINGS = ("image", "condition", "severity")


@dataclass(frozen=True)
class Job:
    """What is predicted, and how.

    Attributes:
        name: of the network.
        network: to be asked.
        task: bound to it.
        form: of its predictions.
        samples: the images.
        protocol: how an image becomes the input.
        normalisation: of the network.
        conditions: clean, and what else is done to the images.
        seed, channel_order, frost_folder: of corruptions, see `corrupt`.
        batch_size: images at once.
        precision: in which the network computes.
    """

    name: str
    network: nn.Module
    task: Task
    form: PredictionForm
    samples: SampleSet
    protocol: Protocol
    normalisation: Normalisation
    conditions: tuple[Condition, ...] = (CLEAN,)
    seed: int = 0
    channel_order: ChannelOrder = "rgb"
    frost_folder: Path | None = None
    batch_size: int = 4
    precision: Precision = "fp32"

    @property
    def corrupts(self) -> bool:
        """Whether images are corrupted too."""
        return len(self.conditions) > 1

    @property
    def kind_of_images(self) -> str:
        """What they are: "images", or "frames" of a film."""
        return "frames" if isinstance(self.samples, FilmFrames) else "images"

    def fingerprint(self) -> str:
        """Changes when anything changes that the files depend on."""
        known: dict[object, bytes] = {}
        networks, images, how = Digest(known), Digest(known), Digest(known)
        networks.add(self.name, astuple(self.normalisation))
        networks.add_network(self.network)
        add_samples(images, self.samples)
        images.add(getattr(self.samples, "image_ids", None))
        how.add(self.task.facts(), self.form, self.form.describe(self.task), self.protocol, self.conditions)
        how.add(self.seed, self.channel_order, self.batch_size, self.precision)
        if self.frost_folder is not None:
            files = [texture.path for texture in frost_textures(self.frost_folder) if texture.path is not None]
            how.add_files(Path(), [str(file) for file in files])
        parts: dict[str, Digest | str] = {"networks": networks}
        parts["network outputs"] = outputs_part([(self.task, self.network, self.protocol.size)])
        return fingerprint({**VERSION, **parts, "images": images, "settings": how})

    def under(self, images: Tensor, ids: list[str], condition: Condition) -> Tensor:
        """uint8 [B, 3, H, W] under a condition."""
        how: Any = dict(channel_order=self.channel_order, frost_folder=self.frost_folder)
        return apply_condition(images, ids, condition, seed=self.seed, **how)

    @property
    def ids(self) -> dict[str, str]:
        """Where the ids of images in lists come from; nothing where there is no list."""
        source = "annotations" if getattr(self.samples, "image_ids", None) else "names"
        return {"ids": source} if self.form.record_list else {}

    def image_id(self, name: str) -> int | str:
        """Of a sample, in the annotation file of the dataset; the id of the sample where there is none."""
        return (getattr(self.samples, "image_ids", None) or {}).get(name, name)

    def ask(self, images: Tensor) -> list[Any]:
        """One prediction per image of uint8 [B, 3, H, W].

        Raises:
            TooSmallError: the network cannot take so small images.
        """
        B, _, H, W = images.shape
        with fits_memory(B, (H, W)):
            return ask(self._predict, images, self.network, self.protocol.size)

    def _predict(self, images: Tensor) -> list[Any]:
        with answering_in(self.precision, self.network):
            return self.form.predict(self.task, self.network, images, self.normalisation)

    def check_precision(self) -> dict[str, Any]:
        """What half precision does to the first batch, under all conditions: `changed`, the share of the predictions that
        differ from those in fp32 (see `Task.disagreement`), and `share_change`, by how much the share of a class, over the
        images of a condition, differs at most."""
        about: dict[str, Any] = {"precision": self.precision}
        if self.precision == "fp32":
            return about
        batches = decoded_batches(self.samples, self.protocol, self.batch_size, lambda number: number == 0)
        in_full, differing = replace(self, precision="fp32"), list[float]()
        moved = np.zeros((len(self.conditions), len(self.form.classes(self.task))))
        with evaluation_mode(self.network), closing(batches), closing(_batches(self, batches)) as made:  # type: ignore[type-var]
            batch = next(made, _Batch(0, [], []))
            for _, inputs in batch.groups:
                for place, images in enumerate(inputs):
                    for half, full in zip(self.ask(images), in_full.ask(images), strict=True):
                        differing.append(self.form.disagreement(self.task, half, full))
                        moved[place] += self.form.shares(self.task, half) - self.form.shares(self.task, full)
        count = sum(len(ids) for ids, _ in batch.groups)
        if not count:
            return {**about, "checked_images": 0, "changed": None, "share_change": None}
        largest = float(np.abs(moved).max(initial=0.0)) / count
        return {**about, "checked_images": count, "changed": sum(differing) / len(differing), "share_change": largest}


@dataclass
class _Batch:
    """Images as they are shown: (ids, images [b, 3, H, W] of each condition) of each size; (id, reason) of the rest."""

    number: int
    groups: list[tuple[list[str], list[Tensor]]]
    skipped: list[tuple[str, str]]


def run_job(
    job: Job, destination: Destination, processes: Processes, stored: StoredWork, report: PassReport | None = None
) -> None:
    """Predicts the images of this process that are not done yet; the network is left in the mode it was in.

    Args:
        job: what to predict.
        destination: where files go.
        processes: that share the work.
        stored: where finished batches are kept and found again.
        report: callback for progress.
    """
    done = dict(_finished(job, destination, processes, stored))
    step = counter(report, job.name, len(job.samples) // processes.world)
    step(sum(done.values()))
    wanted = decoded_batches(
        job.samples,
        job.protocol,
        job.batch_size,
        lambda k: k % processes.world == processes.rank and k not in done,
        device=device_of(job.network),
    )
    with evaluation_mode(job.network), quickened(job.network), Prefetch(_batches(job, wanted)) as batches:
        for batch in batches:
            stored.save(batch_name(batch.number), _predicted(job, batch, destination))
            step(sum(len(ids) for ids, _ in batch.groups) + len(batch.skipped))


def batch_name(number: int) -> str:
    return f"batch-{number:06}"


def _finished(job: Job, destination: Destination, processes: Processes, stored: StoredWork) -> Iterator[tuple[int, int]]:
    """(number, images) of the batches of an earlier run whose files are all there."""

    def images(part: Part) -> int:
        ids = {row[0] for row in part.values["rows"]}
        whole = all(path.is_file() for name in ids for path in destination.paths(name))
        return len(ids) + len(part.values["skipped"]) if whole else 0

    for number in stored.numbers("batch"):
        if number % processes.world == processes.rank and (count := stored.load(batch_name(number), images)):
            yield number, count


def _batches(job: Job, decoded: Iterator[Decoded]) -> Iterator[_Batch]:
    """Corrupts beside the network. Images that are too small for that are left out."""
    for number, groups, skipped in decoded:
        made, left_out = [], list(skipped)
        for samples, images in groups:
            ids = [sample.id for sample in samples]
            if job.corrupts and (reason := why_not_corrupted(images)):
                left_out += [(name, reason) for name in ids]
            else:
                made.append((ids, [job.under(images, ids, condition) for condition in job.conditions]))
        yield _Batch(number, made, left_out)


def _predicted(job: Job, batch: _Batch, destination: Destination) -> Part:
    """Predicts a batch, writes its files, and gives what the table needs."""
    rows: list[list[Any]] = []
    records: list[list[dict[str, Any]]] = [[] for _ in job.conditions]
    skipped = list(batch.skipped)
    shares = np.zeros((len(job.conditions), len(job.form.classes(job.task))))
    for ids, inputs in batch.groups:
        try:
            answers = [job.ask(images) for images in inputs]
        except TooSmallError as error:
            skipped += [(name, str(error)) for name in ids]
            continue
        for i, name in enumerate(ids):
            shown = [
                Shown(condition, _image(images[i]), given[i])
                for condition, images, given in zip(job.conditions, inputs, answers, strict=True)
            ]
            destination.write(name, shown)
            for place, (condition, _, prediction) in enumerate(shown):
                rows.append([name, condition.name, condition.severity, *job.form.row(job.task, prediction)])
                records[place] += job.form.records(job.task, prediction, job.image_id(name))
                shares[place] += job.form.shares(job.task, prediction)
    return Part({"rows": rows, "records": records, "skipped": skipped}, {"shares": shares})


def _image(pixels: Tensor) -> Image.Image:
    return Image.fromarray(pixels.permute(1, 2, 0).cpu().numpy())


@dataclass
class Totals:
    """What all batches together have.

    Attributes:
        images: predicted.
        shares: float64 [conditions, K], summed over the images.
        skipped: (id, reason).
    """

    images: int = 0
    shares: np.ndarray | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)


def table_rows(job: Job, stored: StoredWork, totals: Totals) -> Iterator[list[Any]]:
    """The table of all predictions, its heading first, one batch in memory at a time; counts along the way.

    Raises:
        RuntimeError: a batch was damaged since it was stored.
    """
    yield [*HEADINGS, *job.form.columns(job.task)]
    for part in _parts(stored):
        rows = part.values["rows"]
        totals.images += len(rows) // len(job.conditions)
        totals.shares = part.arrays["shares"] + (0 if totals.shares is None else totals.shares)
        totals.skipped += [(name, reason) for name, reason in part.values["skipped"]]
        yield from rows


def record_rows(stored: StoredWork, place: int) -> Iterator[dict[str, Any]]:
    """The records of all images under one condition, one batch in memory at a time.

    Args:
        stored: the finished batches.
        place: of the condition.

    Raises:
        RuntimeError: a batch was damaged since it was stored.
    """
    for part in _parts(stored):
        yield from part.values["records"][place]


def _parts(stored: StoredWork) -> Iterator[Part]:
    for number in stored.numbers("batch"):
        part = stored.load(batch_name(number), lambda part: part)
        if part is None:
            raise RuntimeError(f"{stored.folder / batch_name(number)}.npz is damaged; run again with --resume (resume=True)")
        yield part
