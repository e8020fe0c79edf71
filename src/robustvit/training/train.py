"""`train`: a run from its configuration to its folder.

FOLDER/config.yaml        the resolved configuration; `robustvit train --resume --output FOLDER` needs nothing else
FOLDER/metrics.jsonl      one line per logged update and per validation
FOLDER/checkpoints/       the last states, for resuming
FOLDER/best/, weights/    model.safetensors and config.json: the best validated network, and the last
FOLDER/training.png       loss and accuracy
FOLDER/summary.json       how it ended
FOLDER/failure.json       where a loss or weights that are no numbers came from, if that happened
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from robustvit.metrics.measures import Measure
from robustvit.runtime.files import check_writable, explained
from robustvit.runtime.interruption import Interruption, finishing_steps
from robustvit.runtime.locking import locking_output
from robustvit.training.config import TrainConfig
from robustvit.training.config_io import ConfigError, changed_settings, load_saved_config, save_config
from robustvit.training.distributed import choose_device, join_workers
from robustvit.training.keeper import Keeper
from robustvit.training.not_finite import NotFiniteError
from robustvit.training.result import TrainingResult
from robustvit.training.run import Run
from robustvit.training.training_sets import validation_samples
from robustvit.training.validation import Validation

__all__ = ["Progress", "TrainingResult", "train"]


@dataclass(frozen=True)
class Progress:
    """How far a run is; given to `report` after every update.

    Attributes:
        update, updates: done, and in all.
        epoch: done, as a fraction.
        images_per_second: since the last report.
        terms: the loss terms of this update.
        score: of the last validation, or None.
        measure: what the score is.
    """

    update: int
    updates: int
    epoch: float
    images_per_second: float
    terms: Mapping[str, float]
    score: float | None
    measure: Measure

    @property
    def accuracy(self) -> float | None:
        """The score of a classifier."""
        return self.score


@locking_output
def train(
    config: TrainConfig | None,
    output: str | Path = "runs/train",
    *,
    resume: bool = False,
    report: Callable[[Progress], None] | None = None,
) -> TrainingResult:
    """Trains a network. Under torchrun, every process calls it and the first writes.

    Args:
        config: what to do; None takes that of the run in `output` (with `resume`).
        output: folder of the run, made if needed.
        resume: go on from the last checkpoint in `output`; without one, from the start. Numbers are those of a run that was
            never interrupted.
        report: called after every update.

    Ctrl-C raises KeyboardInterrupt, and the last checkpoint is what is kept. The command line instead finishes the update and
    saves; so does `robustvit.runtime.interruption.catching_signals` around a call.

    Raises:
        ConfigError: the configuration cannot work, or differs from that of the run to be resumed.
        NotFiniteError: the loss or the weights became NaN or infinite; failure.json says where.
        FileExistsError: there is a run in `output` already.
        FolderInUseError: another process trains there.
    """
    folder = Path(output)
    config, notes = _check_folder(config, folder, resume)
    device = choose_device(config.loop.device)
    with join_workers(config.loop.parallel, device) as workers:
        run = Run(config, workers, device, cache=folder / "deepaugment.safetensors")
        try:
            return _run(run, folder, resume, notes, report)
        finally:
            del run  # before the processes part


def _run(
    run: Run, folder: Path, resume: bool, notes: Sequence[str], report: Callable[[Progress], None] | None
) -> TrainingResult:
    validation = _validation(run)
    if run.workers.is_first:
        _make(folder)
        save_config(run.config, folder / "config.yaml")
    keeper = Keeper(folder, run, resume=resume)
    keeper.notes += notes
    try:
        return _loop(run, keeper, validation, report)
    except NotFiniteError as error:
        keeper.save_failure(error)
        error.add_note(f"{folder / 'failure.json'} has the details")
        raise
    finally:
        keeper.close()


def _check_folder(config: TrainConfig | None, folder: Path, resume: bool) -> tuple[TrainConfig, list[str]]:
    """The configuration to run, after checking that it may run there; and what a reader should know."""
    stored_at = folder / "config.yaml"
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; give a folder for the run")
    if config is None and not (resume and stored_at.is_file()):
        raise FileNotFoundError(f"there is no run in {folder} to resume (no config.yaml); give a recipe")
    if not stored_at.is_file():
        return config, []  # type: ignore[return-value]
    if not resume:
        raise FileExistsError(f"there is a run in {folder} already; --resume goes on with it, another --output starts anew")
    try:
        stored = load_saved_config(stored_at)
    except ConfigError:
        if config is None:
            raise
        return config, [f"{stored_at} was damaged, and is written anew"]
    if config is None:
        return stored, []
    if changed := changed_settings(stored, config):
        told = ", ".join(f"{key} was {then!r} and is {now!r}" for key, (then, now) in list(changed.items())[:5])
        raise ConfigError(f"the run in {folder} cannot be resumed with another configuration: {told}; give another --output")
    return config, []


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, folder.parent) from error
    check_writable(folder / "config.yaml")


def _validation(run: Run) -> Validation | None:
    samples = validation_samples(
        run.task, run.config.data, img_size=run.protocol.size, seed=run.seed, classes=run.data.classes
    )
    if samples is None:
        return None
    size = max(1, run.config.loop.batch_size // run.workers.world)
    task = run.task.with_options(**run.config.validation).bind_in_order(run.outputs)
    return Validation(task, samples, run.protocol, run.normalisation, size, run.workers)


def _loop(
    run: Run,
    keeper: Keeper,
    validation: Validation | None,
    report: Callable[[Progress], None] | None,
) -> TrainingResult:
    batches = run.batches(math.ceil(run.updates / run.updates_per_epoch))
    started = time.perf_counter()
    with finishing_steps() as interruption, closing(batches):
        stop = keeper.is_validation_due and _after_update(run, keeper, validation, interruption)  # of an interrupted run
        while run.updates_done < run.updates and not stop:
            update = next(batches)
            found = run.advance(update)
            keeper.note(found, update)
            now = time.perf_counter()
            if report is not None:
                speed = run.config.loop.batch_size / (now - started)
                report(Progress(run.updates_done, run.updates, run.epoch, speed, found["terms"], keeper.score, keeper.measure))
            started = now
            stop = _after_update(run, keeper, validation, interruption)
        return keeper.finish()


def _after_update(run: Run, keeper: Keeper, validation: Validation | None, interruption: Interruption) -> bool:
    """Validates and saves where it is time to; whether somebody wants the run to stop, which all processes agree on."""
    loop, is_end = run.config.loop, run.updates_done == run.updates
    is_epoch_end = run.updates_done % run.updates_per_epoch == 0
    epoch = run.updates_done // run.updates_per_epoch
    every = loop.checkpoint_every or run.updates_per_epoch
    is_save_due = is_end or run.updates_done % every == 0
    is_time = is_epoch_end and epoch % loop.validate_every == 0
    if loop.validate_updates:
        is_time = run.updates_done % loop.validate_updates == 0
    is_validation_due = is_end or keeper.is_validation_due or is_time
    if validation is not None and is_validation_due:
        run.check_weights()  # before FOLDER/best may get them
        keeper.validate(validation, lambda: interruption.received is not None)
    stop = interruption.agree(run.workers.gather(interruption.received))
    if is_save_due or stop:
        run.check_weights()
        keeper.save()
    return stop
