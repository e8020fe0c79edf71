"""`robustvit eval` and `robustvit corrupt` as a user types them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import robustvit as rv
from robustvit.cli import main
from robustvit.runtime.checked_json import read_checked_json

SMALL = ["--data", "scenes:6", "--suite", "noise"]
MIXED = ["--data", "scenes:6", "--suite", "noise", "blur", "imagenet-p"]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save_file(rv.create_model("rvt_nano", num_classes=10).state_dict(), tmp_path / "mine.safetensors")
    return tmp_path / "mine.safetensors"


def test_a_checkpoint_is_measured_and_the_files_are_written(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", f"rvt_nano={weights}", *SMALL, "--output", str(tmp_path / "out"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    stored = read_checked_json(tmp_path / "out" / "results.json")
    assert printed == stored
    assert stored["models"][0]["name"] == f"rvt_nano={weights}"
    assert len(stored["models"][0]["cells"]) == 16
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


def test_a_checkpoint_that_names_its_network_needs_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = rv.create_model("rvt_nano", num_classes=10)
    stored = {"arch": "rvt_nano", "state_dict": network.state_dict(), "args": argparse.Namespace(model="rvt_nano")}
    torch.save(stored, tmp_path / "training.pth.tar")
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "rvt_nano"}))
    for file in ("training.pth.tar", "model.safetensors"):
        out = tmp_path / f"out-{file}"
        assert main(["eval", str(tmp_path / file), "--data", "scenes:2", "--suite", "clean", "--output", str(out)]) == 0
        assert rv.Results.load(out).models[0].cells[0].images == 2
    torch.save(network.state_dict(), tmp_path / "bare.pth")
    assert main(["eval", str(tmp_path / "bare.pth"), "--data", "scenes:2", "--suite", "clean"]) == 2
    assert f"give NAME={tmp_path / 'bare.pth'}" in capsys.readouterr().err


def test_several_networks_are_compared_in_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    names = ["fan_vit_nano", "rvt_nano"]
    assert main(["eval", *names, "--untrained", *SMALL, "--output", str(tmp_path / "out")]) == 0
    told = capsys.readouterr()
    assert all(name in told.out for name in names)
    assert "clean accuracy" in told.out
    assert "fan_vit_nano - rvt_nano" in told.out
    assert "untrained" in told.err
    assert all(model.is_untrained for model in rv.Results.load(tmp_path / "out").models)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.index("Untrained.") < page.index("<h1>")


def test_networks_have_the_names_that_they_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", "vit_nano", "vit_pico", "--data", "scenes-easy:4", "--suite", "clean", "--output", str(tmp_path)]
    for names, told in [(["a"], "1 names for 2"), (["a", "a"], "'a' to two"), (["a", " "], "empty name")]:
        assert main([*command, "--name", *names]) == 2
        assert told in capsys.readouterr().err
    assert main([*command, "--name", "plain", "tiny"]) == 0
    told = capsys.readouterr()
    assert "plain - tiny" in told.out
    assert "untrained" not in told.err
    results = rv.Results.load(tmp_path)
    assert [(model.name, model.is_untrained) for model in results.models] == [("plain", False), ("tiny", False)]
    assert "vit_nano" not in (tmp_path / "results.csv").read_text() + (tmp_path / "report.html").read_text()
    assert "Untrained." not in (tmp_path / "report.html").read_text()


def test_wrong_requests_end_with_code_2_and_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, told in [
        (["fan_vit_nano", "--untrained", "--data", str(tmp_path / "nowhere")], "there is no"),
        (["fan_vit_nano", "--untrained", "--data", str(tmp_path / "empty")], "is empty"),
        (["fan_vit_nan", "--untrained", "--data", "scenes:4"], "fan_vit_nano"),
        (["fan_vit_nano", "--untrained", "--data", "scenes:4", "--suite", "rain"], "no suite 'rain'"),
        (["fan_vit_nano=missing.pth", "--data", "scenes:4"], "missing.pth"),
        (["missing.pth", "--data", "scenes:4"], "there is no file missing.pth; give the path of a checkpoint"),
    ]:
        assert main(["eval", *arguments, "--output", str(tmp_path / "out")]) == 2
        assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_no_network_and_the_folder_of_a_run_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--data", "scenes:4", "--output", str(tmp_path / "out")]) == 2
    assert "give at least one" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="give at least one"):
        rv.evaluate({}, "scenes:4")
    (tmp_path / "run" / "best").mkdir(parents=True)
    assert main(["eval", str(tmp_path / "run"), "--data", "scenes:4"]) == 2
    assert "is a folder; it has no config.json" in capsys.readouterr().err
    (tmp_path / "run" / "best" / "config.json").write_text("{}")
    assert main(["eval", str(tmp_path / "run"), "--data", "scenes:4"]) == 2
    assert f"give local-dir:{tmp_path / 'run' / 'best'}" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for place, told in ((tmp_path / "file", "is a file; give a folder"), ("/proc/out", "cannot write into the folder /proc")):
        arguments = ["--untrained", "--num-classes", "10", "--data", "scenes:2", "--suite", "clean", "--output", str(place)]
        assert main(["eval", "rvt_nano", *arguments]) == 2
        assert told in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(weights: Path, tmp_path: Path) -> None:
    command = [
        "eval",
        f"rvt_nano={weights}",
        "--data",
        "scenes:3",
        "--suite",
        "noise",
        "imagenet-p",
        "--batch-size",
        "1",
        "--output",
    ]
    assert main([*command, str(tmp_path / "one")]) == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "robustvit"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*launcher, *command, str(tmp_path / "two")], check=True, env=environment, capture_output=True)
    one, two = (rv.Results.load(tmp_path / name) for name in ("one", "two"))
    assert one.models[0].cells == two.models[0].cells
    assert one.models[0].summary == two.models[0].summary


def test_corrupt_writes_a_tree_that_eval_reads(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(10):
        (tmp_path / "set" / f"c{i}").mkdir(parents=True)
        pixels = np.random.default_rng(i).integers(0, 255, (40, 48, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "set" / f"c{i}" / "x.png")
    options = ["--names", "common15", "--size", "32", "--workers", "1"]
    assert main(["corrupt", str(tmp_path / "set"), str(tmp_path / "set-c"), *options]) == 0
    assert "750 files written, 0 " in capsys.readouterr().out
    command = ["eval", f"rvt_nano={weights}", "--data", str(tmp_path / "set-c"), "--suite", "imagenet-c"]
    assert main([*command, "--output", str(tmp_path / "out")]) == 0
    assert len(rv.Results.load(tmp_path / "out").models[0].cells) == 75


def test_corrupt_refuses_what_cannot_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, told in [
        (["nowhere", "out"], "there is no folder nowhere"),
        ([str(tmp_path), "out", "--severities", "6"], "give some of 1, 2, 3, 4, 5"),
        ([str(tmp_path), "out", "--layout", "coco", "--size", "64"], "--size"),
    ]:
        assert main(["corrupt", *arguments]) == 2
        assert told in capsys.readouterr().err
