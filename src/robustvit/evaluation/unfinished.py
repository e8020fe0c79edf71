"""The folder of a run that is not finished yet, so that it can go on after an interruption."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from torch import nn

from robustvit.evaluation.plan import Job, Settings
from robustvit.evaluation.processes import Processes
from robustvit.evaluation.results import Results
from robustvit.files import explained, write_whole

__all__ = ["UnfinishedRunError", "add_weights", "fingerprint_of", "finished_results", "unfinished_folder"]


class UnfinishedRunError(ValueError):
    """The output folder has a run that was interrupted, or one with other settings."""


def fingerprint_of(models: dict[str, nn.Module], jobs: dict[str, list[Job]], suites: Sequence[str], settings: Settings) -> str:
    """Changes when anything changes that unfinished work depends on: version, suites, settings, pictures, weights."""
    digest = hashlib.blake2b(repr((version("robustvit"), tuple(suites), settings)).encode(), digest_size=16)
    for attack in settings.attacks:
        digest.update(repr((attack.name, attack.describe())).encode())  # the weights of a corruption network as well
    for name, network in models.items():
        digest.update(repr(name).encode())
        add_weights(digest, network)
        for task in (task for job in jobs[name] for task in job.tasks):
            pictures = task.pictures
            digest.update(repr((pictures.name, len(pictures), pictures.classes, task.protocol, task.conditions)).encode())
            digest.update(repr((task.mean, task.std)).encode())
    return digest.hexdigest()


def add_weights(digest: hashlib.blake2b, network: nn.Module) -> None:
    """Lets a digest depend on all weights of a network."""
    for key, tensor in network.state_dict().items():
        digest.update(f"{key}{tuple(tensor.shape)}{tensor.dtype}".encode())
        if tensor.numel():
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def finished_results(output: Path, fingerprint: str) -> Results | None:
    """The results in `output`, if they are of this very run."""
    try:
        results = Results.load(output)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return results if results.fingerprint == fingerprint else None


def unfinished_folder(output: Path, fingerprint: str, resume: bool, processes: Processes) -> Path:
    """The folder for unfinished work, empty or with work of this very run.

    Raises:
        OSError: `output` cannot be made or written to.
        UnfinishedRunError: there is work of another run, or of this one and `resume` is False.
    """
    folder = output / "unfinished"
    marker = folder / "run.json"
    if marker.exists():
        if json.loads(marker.read_text()).get("fingerprint") != fingerprint:
            raise UnfinishedRunError(
                f"{output} has an unfinished run of other networks, pictures or settings; give another folder, or "
                f"delete {folder}"
            )
        if not resume:
            raise UnfinishedRunError(f"{output} has an unfinished run; go on with --resume (resume=True), or delete {folder}")
    processes.gather(None)
    if processes.rank == 0:
        _make(folder)
        with write_whole(marker) as file:
            file.write_text(json.dumps({"fingerprint": fingerprint}))
    processes.gather(None)
    return folder


def _make(folder: Path) -> None:
    output = folder.parent
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"{output} is a file; give a folder for the results")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, output.parent if not output.exists() else output) from error
