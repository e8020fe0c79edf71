"""What a run leaves behind: the log, checkpoints, the best and the last weights, the figure, and how it ended."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustvit.models.saved_folder import save_weights
from robustvit.runtime.checkpoints import Checkpoints
from robustvit.runtime.files import write_whole
from robustvit.runtime.page_writers import page_writer
from robustvit.runtime.weights import CheckpointError
from robustvit.training.batches import Batch
from robustvit.training.config_io import fingerprint_of
from robustvit.training.metrics_log import MetricsLog, read_metrics
from robustvit.training.networks import initialisation_notes, model_options
from robustvit.training.not_finite import NotFiniteError
from robustvit.training.result import TrainingResult
from robustvit.training.run import Run
from robustvit.training.validation import Validation

__all__ = ["Keeper"]

_NUMBERS = ("lr", "loss", "terms", "diagnostics")


class Keeper:
    """Writes the files of a run, in the first process; the others only take part in what all must do.

    Args:
        folder: of the run.
        run: brought to the newest checkpoint in `folder` with `resume`.
        resume: see `train`.
    """

    def __init__(self, folder: Path, run: Run, *, resume: bool) -> None:
        self.folder, self.run = folder, run
        self.checkpoints = Checkpoints(folder / "checkpoints", run.config.loop.keep, fingerprint_of(run.config))
        wanted, workers = run.config.data.workers, run.data.workers
        told = f"data.workers={wanted} are more than the cores of this process; it uses {workers}"
        self.notes: list[str] = [told] if wanted > workers else []
        if run.frozen:
            self.notes.append(
                f"{run.frozen} batch norms keep their statistics (loop.freeze_batchnorm={run.config.loop.freeze_batchnorm}); "
                "for weights that start at random, give a larger loop.batch_size, or loop.freeze_batchnorm=false"
            )
        self.notes += initialisation_notes(run.network)
        self.measure = run.task.primary
        self.score: float | None = None
        self.best: float | None = None
        self.unreadable: dict[str, str] = {}
        self.concerns: set[str] = set()
        self.window: dict[str, float] = {}
        self.window_size = 0
        self.is_validation_due = False
        if resume:
            self._resume()
        is_first = run.workers.is_first
        self.log = MetricsLog(folder, run.updates_done, run.config.loop.tensorboard) if is_first else None
        self.notes += self.log.notes if self.log is not None else []

    def _resume(self) -> None:
        found = self.checkpoints.newest(self._use)
        updates = self.run.workers.gather(0 if found is None else found.state["update"])
        if len(set(updates)) > 1:
            raise CheckpointError(
                f"the processes found different checkpoints, of updates {', '.join(map(str, updates))}: the folder of the run "
                "must be the same for all; put it where every node sees it"
            )
        if found is not None:
            self.notes += [f"{path.name} was passed over: {reason}" for path, reason in found.passed_over]

    def _use(self, state: Mapping[str, Any]) -> None:
        """Brings the run to a checkpoint, or says why it is not of this run."""
        self.run.check_samples(state)
        try:
            self.run.load(state)
            kept = state["keeper"]
            self.score, self.best, self.unreadable = kept["accuracy"], kept["best"], dict(kept["unreadable"])
            self.window, self.window_size, self.is_validation_due = dict(kept["window"]), kept["window_size"], kept["is_due"]
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"it does not fit this run: {' '.join(str(error).split())[:300]}") from error

    def note(self, found: Mapping[str, Any], batches: Sequence[Batch]) -> None:
        """After an update: adds its numbers to the log, where it is time for a line, as means since the last line."""
        self.unreadable.update(dict(pair for batch in batches for pair in batch.unreadable))
        values = {**{f"term {name}": value for name, value in found["terms"].items()}, "loss": found["loss"]}
        values.update({name: value for name, value in found.items() if name not in _NUMBERS})
        for name, value in values.items():
            self.window[name] = self.window.get(name, 0.0) + float(value)
        self.window_size += 1
        run = self.run
        if not run.is_logged(run.updates_done):
            return
        means = {name: value / self.window_size for name, value in self.window.items()}
        terms = {name.removeprefix("term "): means.pop(name) for name in list(means) if name.startswith("term ")}
        place = {"update": run.updates_done, "epoch": round(run.epoch, 4)}
        diagnostics = found.get("diagnostics", {})
        added = {"diagnostics": diagnostics} if diagnostics else {}
        self._write({**place, "lr": found["lr"], **means, "terms": terms, **added})
        self._warn(diagnostics)
        self.window, self.window_size = {}, 0

    def _warn(self, diagnostics: Mapping[str, Mapping[str, float]]) -> None:
        """Says once of each method that it does not do what it is for; not of the first tenth, when nothing is learned yet."""
        if 10 * self.run.updates_done < self.run.updates:
            return
        for method in self.run.methods:
            concern = method.concern(diagnostics[method.name]) if method.name in diagnostics else None
            if concern and method.name not in self.concerns:
                self.concerns.add(method.name)
                self.notes.append(f"{method.name} at update {self.run.updates_done}: {concern}")
                if self.run.workers.is_first:
                    warnings.warn(self.notes[-1], stacklevel=2)

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self.log is not None:
            self.log.write(entry)

    def validate(self, validation: Validation, stop: Callable[[], bool] | None = None) -> None:
        """Measures the network, and its average; the better one so far is written to FOLDER/best.

        Args:
            validation: the images.
            stop: asked on the way whether to leave off; then it is due when the run is resumed.
        """
        run = self.run
        name = f"val_{self.measure.key}"
        networks = {name: run.network}
        if run.ema is not None:
            networks[f"{name}_ema"] = run.ema.module
        found = {}
        self.is_validation_due = True
        for key, network in networks.items():
            if (score := validation.score(network, stop)) is None:
                return
            found[key] = score
        self.is_validation_due = False
        self._write({"update": run.updates_done, "epoch": round(run.epoch, 4), **found})
        self.score = found.get(f"{name}_ema", found[name])
        sign = 1 if self.measure.higher_is_better else -1
        better = max(found, key=lambda key: sign * found[key])
        if self.best is None or sign * found[better] > sign * self.best:
            self.best = found[better]
            self._save_weights("best", networks[better], {name: self.best, "averaged": better != name})
        self.unreadable.update(validation.unreadable)

    def _save_weights(self, place: str, network: Any, extra: Mapping[str, Any]) -> None:
        run = self.run
        weights = run.workers.network_state(network)
        if not run.workers.is_first:
            return
        options = model_options(run.config.model, run.outputs)
        about = {**extra, "label_names": list(run.data.classes), "updates": run.updates_done}
        save_weights(run.network, weights, self.folder / place, options, about, run.task.name)

    def save(self) -> None:
        """Writes a checkpoint, and the last weights beside it at the end."""
        run = self.run
        state = run.state()
        for part in run.workers.gather(self.unreadable):
            self.unreadable.update(part)
        kept = dict(accuracy=self.score, best=self.best, unreadable=self.unreadable)
        state["keeper"] = {**kept, "window": self.window, "window_size": self.window_size, "is_due": self.is_validation_due}
        if run.workers.is_first:
            self.checkpoints.save(state)

    def save_failure(self, error: NotFiniteError) -> None:
        """failure.json: where the loss or the weights stopped being numbers."""
        if not self.run.workers.is_first:
            return
        run = self.run
        text = {name: value if abs(value) < float("inf") else str(value) for name, value in error.terms.items()}
        about = dict(update=error.update, epoch=run.epoch, message=str(error), terms=text, ids=error.ids)
        self._write_json("failure.json", about)

    def finish(self) -> TrainingResult:
        """Writes the last weights, the figure and the summary."""
        run = self.run
        result = TrainingResult(
            self.folder,
            run.updates_done,
            run.updates,
            self.measure,
            self.score,
            self.best,
            dict(self.unreadable),
            tuple(self.notes),
            self.is_validation_due,
        )
        self._save_weights("weights", run.ema.module if run.ema is not None else run.network, {})
        if run.workers.is_first:
            self._write_json("summary.json", {**result.to_json(), "folder": None})
            page_writer("training")(read_metrics(self.folder / "metrics.jsonl"), self.folder / "training.png")
        return result

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        with write_whole(self.folder / name) as file:
            file.write_text(json.dumps({key: entry for key, entry in value.items() if entry is not None}, indent=2) + "\n")

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
