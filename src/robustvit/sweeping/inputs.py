"""What the runs of a sweep depend on besides their configuration: images and weights, which may change between two calls.

`cell.json` keeps a fingerprint of them. If they have changed, the sweep is not resumed: the numbers of such a run could not be
compared with those of new runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from robustvit.data.protocols import protocol_of
from robustvit.data.sample_digest import add_samples
from robustvit.evaluation.plan import plan as plan_evaluation
from robustvit.evaluation.settings import Settings
from robustvit.models.sources import weights_file
from robustvit.runtime.fingerprint import Digest, fingerprint, parts_of
from robustvit.sweeping.plan import RECORD, Measuring, PlannedCell, SweepPlan, SweepSettingsError
from robustvit.tasks.registry import task_named
from robustvit.training.config import TrainConfig
from robustvit.training.networks import network_of
from robustvit.training.training_sets import TrainingSamples, training_samples

__all__ = ["check_inputs", "weights_digest"]

MISSING = "missing"
"""Stands for what is absent and cannot be compared: images that were moved away, weights that do not exist yet."""
TRAINING, MEASURED = "training pictures", "measured pictures"
"""Names of parts in the fingerprints of `cell.json`, which keep their spelling so that old sweeps can be resumed."""
WEIGHTS = Path("weights", "model.safetensors")
CONFIG = WEIGHTS.with_name("config.json")


def check_inputs(plan: SweepPlan) -> SweepPlan:
    """The plan with the fingerprint of each cell's images and weights. Opens the images as the cells will.

    Raises:
        SweepSettingsError: a cell was trained or measured with others.
        ValueError, OSError: the images of a cell that waits are not there, or do not fit the network.
    """
    inputs = _Inputs(plan.measuring)
    cells = []
    for planned in plan.cells:
        now = inputs.of(planned)
        _compare(plan.folder / planned.found.folder, planned, now)
        cells.append(replace(planned, inputs=now))
    return replace(plan, cells=tuple(cells))


def weights_digest(run: Path) -> str:
    """Digest of the last weights of a run and the arguments of their network, as they are measured."""
    if not (run / WEIGHTS).is_file():
        return MISSING
    digest = Digest()
    digest.add_contents(run / WEIGHTS)
    if (run / CONFIG).is_file():
        digest.add_contents(run / CONFIG)
    return digest.text()


def _compare(place: Path, planned: PlannedCell, now: str) -> None:
    before, after = parts_of(planned.inputs), parts_of(now)
    if planned.found.state == "done":
        before["weights"], after["weights"] = planned.weights or MISSING, weights_digest(place)
    else:
        after.pop(MEASURED)  # nothing was measured that counts
    pairs = {name: (before.get(name, MISSING), value) for name, value in after.items()}
    changed = [name for name, pair in pairs.items() if MISSING not in pair and pair[0] != pair[1]]
    if changed:
        is_trained = set(changed) <= {MEASURED, "weights"}
        remedy = f"{place / RECORD} to measure it again" if is_trained else f"{place} to train it again"
        named = " and the ".join(changed).replace("pictures", "images")
        raise SweepSettingsError(f"the {named} of {place} have changed since; give another --output, or delete {remedy}")


class _Inputs:
    """Fingerprints of what cells depend on; images and files that cells share are looked at once."""

    def __init__(self, measuring: Measuring) -> None:
        self.measuring, self.known = measuring, dict[Any, bytes]()
        self.digests: dict[Any, Digest | str] = {}
        self.trained: dict[Any, TrainingSamples] = {}

    def of(self, planned: PlannedCell) -> str:
        parts: dict[str, Digest | str] = {TRAINING: MISSING, MEASURED: MISSING}
        try:
            size = self._size(planned.config)
        except Exception:  # reported when the cell runs; others may work
            size = None
        if size is not None:
            try:
                parts = {
                    TRAINING: self._training(planned.config, size),
                    MEASURED: self._measured(planned.config, size),
                }
            except (OSError, ValueError):
                if planned.found.state != "done":
                    raise
        return fingerprint({**parts, "starting weights": self._starting(planned.config)})

    def _size(self, config: TrainConfig) -> tuple[int, int]:
        with torch.device("meta"):  # only to ask what it takes
            return protocol_of("model", network_of(task_named(config.task), _fresh(config), 2, config.augment)).size

    def _training(self, config: TrainConfig, size: tuple[int, int]) -> Digest | str:
        key = ("training", config.data, config.loop.seed if config.data.train_limit else 0, size)
        if key not in self.digests:
            pictures = training_samples(task_named(config.task), config.data, seed=config.loop.seed)
            pictures.draw_at(size)
            digest = Digest(self.known)
            digest.add_array(pictures.places)
            for part in pictures.parts:
                add_samples(digest, part.samples)
            self.digests[key], self.trained[key[1]] = digest, pictures
        return self.digests[key]

    def _measured(self, config: TrainConfig, size: tuple[int, int]) -> Digest | str:
        measuring = self.measuring
        classes = config.model.num_classes or self.trained[config.data].outputs
        key = ("measured", measuring.source(config), classes, size)
        if key not in self.digests:
            with torch.device("meta"):
                network = network_of(task_named(config.task), _fresh(config), classes, config.augment)
            how = dict(limit=measuring.limit, batch_size=measuring.batch_size)
            settings = Settings.of(measuring.source(config), measuring.task(config), measuring.suites, **how)
            digest = Digest(self.known)
            for planned in plan_evaluation(network, settings):
                planned.digest(digest)
            self.digests[key] = digest
        return self.digests[key]

    def _starting(self, config: TrainConfig) -> Digest | str:
        digest = Digest(self.known)
        for checkpoint in _checkpoints(config):
            if checkpoint not in self.digests:
                try:
                    found = Digest()
                    found.add_contents(weights_file(checkpoint))
                    self.digests[checkpoint] = found
                except (OSError, ValueError):  # the cell will say so
                    self.digests[checkpoint] = MISSING
            known = self.digests[checkpoint]
            if known == MISSING:
                return MISSING
            digest.add(checkpoint, known.text() if isinstance(known, Digest) else known)
        return digest


def _fresh(config: TrainConfig) -> Any:
    return replace(config.model, pretrained=False, checkpoint="")


def _checkpoints(config: TrainConfig) -> Iterator[str]:
    """Files and runs that weights come from: of the network, and of the teachers and labelers of methods."""
    owners = [config.model, *config.methods.values()]
    yield from (checkpoint for owner in owners if (checkpoint := getattr(owner, "checkpoint", "")))
