"""The output folder of a run: what is unfinished in it can go on, what is finished is not replaced by something else."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from robustvit.corruptions.frost_textures import frost_textures
from robustvit.evaluation.network_outputs import outputs_part
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.results import Results
from robustvit.evaluation.settings import Settings
from robustvit.runtime.damage import set_aside, warn_of_damage
from robustvit.runtime.files import explained, remove_folder, write_whole
from robustvit.runtime.fingerprint import VERSION, Digest, changed_parts, fingerprint, is_same
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import StoredWork

__all__ = [
    "FinishedRunError",
    "ForeignFileError",
    "UnfinishedRunError",
    "begin_work",
    "check_owner",
    "end_work",
    "fingerprint_of",
    "finished_results",
    "stored_json",
    "title_of",
]

UNFINISHED = "unfinished"
RECORD = "run.json"
_OUR_FOLDERS = re.compile(r"model-\d+|job-.*")
_OUR_FILES = re.compile(r"run\.json|[a-z-]+-\d+\.npz|\.robustvit-.*")
"""Names in the folder of unfinished work."""


class UnfinishedRunError(ValueError):
    """The output folder has a run that was interrupted, or one with other settings."""


class FinishedRunError(ValueError):
    """The output folder has the result of another run."""


class ForeignFileError(ValueError):
    """The output folder has something that is not of this version of robustvit, where a result or its work would go."""


def fingerprint_of(passes: Mapping[str, Sequence[Pass]], settings: Settings) -> str:
    """Changes when anything changes that a result depends on: version, networks, samples, settings.

    Args:
        passes: of each network, by its name.
        settings: of the run.
    """
    known: dict[object, bytes] = {}
    networks, samples, how = Digest(known), Digest(known), Digest(known)
    how.add(settings)  # but for data and task, which the passes add, and for what is only kept
    how.add([(attack.name, attack.describe()) for attack in settings.attacks])  # with their weights
    if settings.frost_folder is not None:
        files = [texture.path for texture in frost_textures(settings.frost_folder) if texture.path is not None]
        how.add_files(Path(), [str(file) for file in files])
    for name, own in passes.items():
        networks.add(name)
        networks.add_network(own[0].network)
        for planned in own:
            networks.add(astuple(planned.normalisation))
            how.add(planned.protocol, planned.cells, planned.facts())
            planned.digest(samples)
    asked = [(own[0].task, own[0].network, own[0].protocol.size) for own in passes.values()]
    parts: dict[str, Digest | str] = {"networks": networks, "network outputs": outputs_part(asked)}
    return fingerprint({**VERSION, **parts, "images": samples, "settings": how})


def finished_results(output: Path, fingerprint: str) -> Results | None:
    """The results of this very run in `output`; None where there are none, or damaged ones, which are set aside.

    Raises:
        FinishedRunError: they are of another run.
        ForeignFileError: results.json is something else.
    """
    path = output / "results.json"
    stored = stored_json(path)
    if stored is None:
        return None
    try:
        title = title_of([model["name"] for model in stored["models"]], stored["data"]["name"], stored["suites"])
    except (KeyError, TypeError, AttributeError):
        title = "of which nobody knows what it is of"
    check_owner(output, path.name, f"{title}, {stored.get('created')}", stored["fingerprint"], fingerprint)
    try:
        return Results.load(path)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        set_aside(path, error)
        return None


def stored_json(path: Path) -> dict[str, Any] | None:
    """What a file of results holds; None where there is none, or a damaged one, which is set aside.

    Raises:
        ForeignFileError: it is whole, and no result that carries a fingerprint.
    """
    try:
        stored = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        set_aside(path, error)
        return None
    if not isinstance(stored, dict) or not isinstance(stored.get("fingerprint"), str):
        raise ForeignFileError(
            f"{path} is no result that this version of robustvit wrote (it carries no fingerprint), and is not replaced; give "
            "another folder (--output), or move it away"
        )
    return stored


def title_of(networks: Iterable[str], pictures: object, what: Iterable[str]) -> str:
    """What a run is a run of, for a reader."""
    return f"{', '.join(networks)} on {pictures} ({', '.join(what)})"


def check_owner(output: Path, file: str, title: str, then: str, now: str) -> None:
    """Refuses to replace the result of another run.

    Args:
        output: the folder.
        file: that has the result.
        title: what it is the result of.
        then, now: fingerprints of that run and of this one.

    Raises:
        FinishedRunError: they differ.
    """
    if not is_same(then, now):
        raise FinishedRunError(
            f"{output} has the result of another run: {title}. This run has {changed_parts(then, now)}. Give another "
            f"folder (--output), or delete {output / file} if that result is not needed"
        )


def begin_work(output: Path, fingerprint: str, title: str, resume: bool, processes: Processes) -> StoredWork:
    """The folder for unfinished work, empty or with work of this very run.

    Args:
        output: folder of the result.
        fingerprint: of the run.
        title: what it is a run of, for whoever finds it unfinished.
        resume: whether to go on with what is there.
        processes: that do the work together.

    Raises:
        OSError: `output` cannot be made or written to.
        UnfinishedRunError: there is work of another run, or of this one and `resume` is False.
        ForeignFileError: what is called as that folder is somebody else's.
    """
    folder = output / UNFINISHED
    _check_ours(folder)
    owner = _owner(folder)
    if owner is not None:
        then, about = owner
        if not is_same(then, fingerprint):
            raise UnfinishedRunError(
                f"{output} has an unfinished run of {changed_parts(then, fingerprint)}: {about}. Give another folder "
                f"(--output), or delete {folder}"
            )
        if not resume:
            raise UnfinishedRunError(f"{output} has an unfinished run; go on with --resume (resume=True), or delete {folder}")
    processes.gather(None)
    if processes.rank == 0:
        if not resume:
            remove_folder(folder)  # nobody's: what a removal left that did not come to its end
        _make(folder)
        with write_whole(folder / RECORD) as file:
            file.write_text(json.dumps({"fingerprint": fingerprint, "title": title}))
    processes.gather(None)
    return StoredWork(folder, fingerprint)


def end_work(output: Path) -> None:
    """Removes the unfinished work of a run that is finished, and nothing that is somebody else's."""
    try:
        _check_ours(output / UNFINISHED)
        remove_folder(output / UNFINISHED)
    except ForeignFileError:
        return
    except OSError as error:
        warnings.warn(f"{output / UNFINISHED} is not needed any more, but stays: {error}", stacklevel=2)


def _check_ours(folder: Path) -> None:
    """Whether a folder is one of unfinished work: it has our record, or nothing but names that we give.

    Raises:
        ForeignFileError: it is not.
    """
    if not folder.exists() or (folder.is_dir() and _is_record(folder / RECORD)):
        return
    odd = folder
    if folder.is_dir():
        wrong = (
            path for path in folder.rglob("*") if not (_OUR_FOLDERS if path.is_dir() else _OUR_FILES).fullmatch(path.name)
        )
        found = next(wrong, None)
        if found is None:
            return
        odd = found
    raise ForeignFileError(
        f"robustvit did not write {odd}, and would keep its unfinished work in {folder}; give another folder (--output), or "
        "rename that one"
    )


def _is_record(path: Path) -> bool:
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(stored, dict) and isinstance(stored.get("fingerprint"), str)


def _owner(folder: Path) -> tuple[str, str] | None:
    """(fingerprint, title) of the run whose work is in `folder`; None where nobody knows."""
    path = folder / RECORD
    try:
        stored = json.loads(path.read_text())
        return str(stored["fingerprint"]), str(stored.get("title", "which one is not known"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        warn_of_damage(path, error, stacklevel=4)
        return None


def _make(folder: Path) -> None:
    output = folder.parent
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"{output} is a file; give a folder for the results")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, output.parent if not output.exists() else output) from error
