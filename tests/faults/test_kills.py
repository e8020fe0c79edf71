"""A command that is ended anywhere goes on to the result of one that never was, and leaves nothing behind."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_cases import draws_of, left_over
from killing import Ended, Kill, run_command
from small_commands import COMMANDS, make_images

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
KILLS = {"train": 10, "eval": 9, "corrupt": 8, "analyze": 6, "attack": 6, "sweep": 6, "demo": 5, "predict": 6}
"""How often each command is ended in the long form: 56 times in all."""
SHORT = (("eval", 0), ("train", 1), ("corrupt", 0), ("eval", 4))
ALL = [(name, i) for name, count in KILLS.items() for i in range(count)]
MOMENTS = ("clean-up", "work", "time")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Ended, Any]]:
    """(folder of what it reads, how it ended, its result) of a command that nobody disturbs; each is run once."""
    root = tmp_path_factory.mktemp("undisturbed")
    make_images(root)
    known: dict[str, tuple[Path, Ended, Any]] = {}

    def run(name: str) -> tuple[Path, Ended, Any]:
        if name not in known:
            command, output = COMMANDS[name], root / name
            ended = run_command(command.line(root, output), output, root / f"{name}-scratch")
            assert ended.code == 0, ended.said
            assert left_over(output) == []
            known[name] = root, ended, command.result(output)
            shutil.rmtree(output)
        return known[name]

    return run


def chosen(name: str, i: int, whole: Ended, draws: random.Random) -> tuple[str, Kill, float | None]:
    """(moment, signal, seconds) of a kill: inside the clean-up, during the work, or at a time."""
    moment = MOMENTS[i % 3]
    number = draws.choice(SIGNALS) if i >= 3 else SIGNALS[(i // 3 + i) % 3]
    whom = draws.choice(("process", "group"))
    if moment == "time":
        return moment, Kill(number, None, whom), draws.uniform(0.1, 1.0) * whole.seconds
    ends = [k for k, told in enumerate(whole.operations) if told.startswith("os.rename") and COMMANDS[name].last_work in told]
    last = ends[-1] + 1
    places = range(last, len(whole.operations)) if moment == "clean-up" else range(last)
    return moment, Kill(number, draws.choice(places), whom), None


@pytest.mark.parametrize(("name", "i"), [pytest.param(*case, marks=() if case in SHORT else pytest.mark.slow) for case in ALL])
def test_a_command_that_was_ended_goes_on_to_the_same_result(
    name: str, i: int, undisturbed: Any, tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    draws = draws_of(f"kills of {name}", i)
    root, whole, expected = undisturbed(name)
    output, command = tmp_path / "out", COMMANDS[name]
    for turn in range(1 + (i % 4 == 3)):
        moment, kill, seconds = chosen(name, i, whole, draws)
        line = command.line(root, output, resume=turn > 0)
        ended = run_command(line, output, tmp_path / f"scratch{turn}", kill, seconds)
        check_end(ended, kill, output)
    ended = run_command(command.line(root, output, resume=True), output, tmp_path / "scratch")
    assert ended.code == 0, ended.said
    assert "Traceback" not in ended.said
    assert command.result(output) == expected
    assert left_over(output) == []
    record_property("fault", f"kills, {name}, {signal.Signals(kill.number).name} to the {kill.whom}, {moment}")


def check_end(ended: Ended, kill: Kill, output: Path) -> None:
    """A signal that can be seen ends the process in order, unless it is done before."""
    if kill.number == signal.SIGKILL:
        assert ended.code in (-signal.SIGKILL, 0), ended.said
        return
    assert ended.code in (128 + kill.number, 0), ended.said
    assert "Traceback" not in ended.said, ended.said
    left = [place.rpartition("/")[2] for place in left_over(output)]
    kept = [name for name in left if name != "unfinished" and "-removed-" not in name]  # which the next run takes, or removes
    assert kept == [], "temporary files after a signal that could be seen"
