"""Whatever happened to the files of a run, finished or not: going on gives the numbers that it should, or says why not."""

from __future__ import annotations

import random
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from damage import damage_file
from fault_cases import command, draws_of, left_over, numbered
from killing import Kill, run_command
from small_commands import COMMANDS, make_images, stored_json

KINDS = ("eval", "train", "corrupt", "analyze", "sweep", "attack")
READ_BACK = re.compile(
    r"results\.json|run\.json|.*\.npz|config\.yaml|metrics\.jsonl|checkpoint-.*\.pt|model\.safetensors|config\.json|summary\.json|"
    r"analysis\.json|cell\.json|sweep\.json|manifest\.json|checksums-.*|sources-.*|.*\.lock"
)
"""What a later run reads. Tables, figures and copies of images are not read: only their absence is noticed."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """(folder, numbers): NAME-whole is finished there, NAME-begun was killed half-way."""
    root = tmp_path_factory.mktemp("bases")
    make_images(root)
    known: dict[str, tuple[Path, Any]] = {}

    def made(name: str) -> tuple[Path, Any]:
        if name not in known:
            small, whole, begun = COMMANDS[name], root / f"{name}-whole", root / f"{name}-begun"
            ended = run_command(small.line(root, whole), whole, root / "scratch")
            assert ended.code == 0, ended.said
            half = Kill(signal.SIGKILL, 6 * len(ended.operations) // 10)
            assert run_command(small.line(root, begun), begun, root / "scratch", half).code == -signal.SIGKILL
            known[name] = root, numbers(name, whole)
        return known[name]

    return made


def numbers(name: str, folder: Path) -> Any:
    """What counts: without tables and logs, which are made of it, and without files of networks that nobody reads again."""
    if name == "sweep":
        stored = [folder / "sweep.json", *sorted(folder.glob("runs/*/evaluation/results.json"))]
        return {str(path.relative_to(folder)): stored_json(path) for path in stored}
    found = COMMANDS[name].result(folder)
    made_of_it = ("csv", "metrics.jsonl", "listed", "best/model.safetensors", "best/config.json")
    return {key: value for key, value in found.items() if key not in made_of_it}


@numbered(120, 4)
def test_damaged_work_is_made_again_or_refused_and_never_changes_a_number(
    number: int, bases: Any, tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    draws = draws_of("results", number)
    name, state = KINDS[number % len(KINDS)], ("begun", "whole")[number // len(KINDS) % 2]
    root, expected = bases(name)
    output = tmp_path / "out"
    shutil.copytree(root / f"{name}-{state}", output)
    damaged = damage(output, draws)
    outcome = command(*COMMANDS[name].line(root, output, resume=True))
    assert left_over(output) == [] or outcome.kind == "refused", damaged
    if outcome.kind == "done":
        assert numbers(name, output) == expected, damaged
    else:
        assert any(str(path) in outcome.said for path in (output, *output.rglob("*"))), f"{damaged}: {outcome.said}"
    record_property("fault", f"results, {name}, {state}: {outcome.kind}")


def damage(output: Path, draws: random.Random) -> list[str]:
    """Damages one to three of the files that are read back."""
    files = sorted(path for path in output.rglob("*") if path.is_file() and READ_BACK.fullmatch(path.name))
    return [damage_file(path, draws) for path in draws.sample(files, min(len(files), draws.choice((1, 1, 1, 2, 3))))]
