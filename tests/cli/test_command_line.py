"""The command line as a whole: help, unknown commands, exit codes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from robustvit.cli import COMMANDS, main

HEAVY = ("torch", "timm", "matplotlib", "numpy", "rich")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_help_lists_every_command() -> None:
    shown = run("-m", "robustvit", "--help")
    assert shown.returncode == 0
    for name, command in COMMANDS.items():
        assert name in shown.stdout
        assert command.summary in shown.stdout


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from robustvit.cli import main; main(['--help']); print([m for m in sys.argv[1:] if m in sys.modules])"
    assert run("-c", code, *HEAVY).stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "attack"])  # whose flags are those of its attacks
def test_help_of_a_command_imports_no_torch(name: str) -> None:
    code = (
        "import sys\nfrom robustvit.cli import main\ntry:\n    main([sys.argv[1], '--help'])\n"
        "except SystemExit as end:\n    print(end.code, 'torch' in sys.modules)"
    )
    shown = run("-c", code, name)
    assert shown.stdout.splitlines()[-1] == "0 False"
    assert f"robustvit {name}" in shown.stdout
    assert "--json" in shown.stdout


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "commands:" in capsys.readouterr().out


def test_version_is_the_version_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    import robustvit

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"robustvit {robustvit.__version__}\n"


def test_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["modles"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "did you mean models?" in told.err


def test_unknown_command_lists_all_when_none_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xyz"]) == 2
    told = capsys.readouterr().err
    assert "did you mean" not in told
    assert all(name in told for name in COMMANDS)


def test_unknown_option_exits_with_2_and_no_traceback() -> None:
    ended = run("-m", "robustvit", "models", "--colour")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "--colour" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (ValueError("a wrong value"), 2, "error: a wrong value\n"),
        (FileNotFoundError("no such file"), 2, "error: no such file\n"),
        (PermissionError("not allowed"), 2, "error: not allowed\n"),
        (RuntimeError("a missing package"), 2, "error: a missing package\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
    ],
)
def test_errors_of_the_user_are_one_message(
    raised: BaseException, code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import robustvit.cli.demo

    def demo() -> None:
        raise raised

    monkeypatch.setattr(robustvit.cli.demo, "demo", demo)
    assert main(["demo"]) == code
    assert capsys.readouterr().err == told


def test_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    import robustvit.cli.demo

    def demo() -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(robustvit.cli.demo, "demo", demo)
    with pytest.raises(KeyError):
        main(["demo"])


@pytest.mark.parametrize(("broken", "code"), [("stdout", 0), ("stderr", 2)])
@pytest.mark.parametrize("is_an_error", [False, True])
def test_only_a_reader_of_results_may_leave(
    broken: str, code: int, is_an_error: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def models() -> None:
        """Says something."""
        sys.stdout.write("result")
        sys.stderr.write("remark")
        sys.stderr.flush()
        if is_an_error:
            raise ValueError("wrong")

    monkeypatch.setattr("robustvit.cli.models.models", models)
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    monkeypatch.setattr(sys, broken, stream)
    found = main(["models"])
    monkeypatch.undo()
    with contextlib.suppress(BrokenPipeError):
        stream.close()
    assert found == (2 if is_an_error else code)
