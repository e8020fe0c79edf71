"""`robustvit attack` as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import robustvit as rv
from robustvit.cli import main
from robustvit.metrics.measures import measure_of
from robustvit.report.numbers import interval, percent
from robustvit.runtime.checked_json import read_checked_json

DATA = ["--data", "scenes-easy:6"]


def test_the_table_has_each_attack_with_its_interval_and_its_perturbation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    attacks = ["--attack", "fgsm", "patches-random", "--eps", "2/255", "--masks", "2"]
    assert main(["attack", "vit_nano", "fan_vit_nano", *DATA, *attacks, "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    results = rv.Results.load(tmp_path)
    for model in results.models:
        for key in ("clean_accuracy", "fgsm_accuracy", "patches_random_accuracy"):
            value = model.summary[key]
            rows = [line for line in printed.out.splitlines() if measure_of(key).words in line]
            assert any(percent(value.value) in row and interval(value) in row for row in rows)
    assert "2.0/255" in printed.out
    assert "vit_nano - fan_vit_nano" in printed.out
    assert f"{tmp_path}/report.html" in printed.err
    assert (tmp_path / "report.html").read_text().count("<h3>Attacks</h3>") == 2


def test_json_is_what_the_file_has_and_explicit_values_win_over_the_preset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attacks = ["--attack", "pgd", "--preset", "rspc", "--steps", "2", "--no-random-start"]
    assert main(["attack", "vit_nano", *DATA, *attacks, "--output", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == read_checked_json(tmp_path / "results.json")
    settings = rv.Results.load(tmp_path).models[0].measurements[0].attacks["pgd"]
    assert settings == {"eps": 8 / 255, "step": 2 / 255, "steps": 2, "random_start": False}
    assert "2 steps of PGD reach 4/255 of 8/255 from the start" in printed.err


def test_every_option_of_patch_fool_arrives(tmp_path: Path) -> None:
    options = {
        "patches": 2, "select": "saliency", "layer": 1, "attention-weight": 0.01, "projection": "published", "iterations": 2,
        "lr": 0.1, "constraint": "linf", "radius": "8/255", "pixels": 5, "pixel-choice": "random",
    }  # fmt: skip
    typed = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    assert main(["attack", "vit_nano", *DATA, "--attack", "patch-fool", *typed, "--output", str(tmp_path)]) == 0
    model = rv.Results.load(tmp_path).models[0]
    expected = {name.replace("-", "_"): value for name, value in options.items() if name != "radius"} | {"limit": 8 / 255}
    assert model.measurements[0].attacks["patch-fool"] == expected
    assert model.cells[-1].largest_change <= 8 / 255 + 1e-6
    assert model.cells[-1].changed_pixels <= 5 / 1024 + 1e-6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pgd", "--rho", "0.2"], "--rho belongs to patches-random and patches-adversarial, and the attack is pgd"),
        (["fgsm", "--no-random-start"], "--no-random-start belongs to pgd"),
        (["pgd", "--radius", "1/255"], "--radius belongs to patch-fool"),
        (["pgd", "--parts", "square"], "--parts belongs to autoattack"),
        (["pgdd"], "there is no attack 'pgdd'; did you mean pgd?"),
        (["fgsm", "--eps", "4/0"], "--eps 4/0 is no number; give one such as 0.0157 or 4/255"),
        (["fgsm", "--eps", "8"], "eps=8 is not possible; give a share of the pixel range, 0 to 1: 8/255"),
        (["pgd", "--preset", "afat"], "there is no preset 'afat'; choose one of rvt, rspc, rvt-adversarial"),
        (["patch-fool", "--constraint", "linf"], "give both (--constraint and --radius"),
        (["patches-adversarial", "--corruption-model", "nowhere"], "there is no nowhere; give the folder of a training run"),
        (["pgd", "--limit", "0"], "limit=0 is not possible"),
        (["pgd", "pgd"], "the attack pgd is given twice"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["attack", "vit_nano", *DATA, "--output", str(tmp_path / "out"), "--attack", *arguments]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_network_without_attention_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = ["resnet10t", "--untrained", "--num-classes", "10", *DATA, "--output", str(tmp_path)]
    assert main(["attack", *network, "--attack", "patch-fool"]) == 2
    assert "patch-fool reads the attention of a network, and ResNet has no attention" in capsys.readouterr().err


def test_a_finished_run_is_shown_again(tmp_path: Path) -> None:
    command = ["attack", "vit_nano", *DATA, "--attack", "fgsm", "--output", str(tmp_path), "--resume"]
    assert main(command) == 0
    first = (tmp_path / "results.json").read_text()
    assert main(command) == 0
    assert (tmp_path / "results.json").read_text() == first


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(tmp_path: Path) -> None:
    attacks = ["--attack", "pgd", "patches-adversarial", "--steps", "2", "--fit-steps", "1", "--batch-size", "2"]
    command = ["-m", "robustvit", "attack", "vit_nano", "--data", "scenes-easy:4", *attacks]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *command]
    for name, arguments in (("one", command), ("two", launcher)):
        run = [sys.executable, *arguments, "--output", str(tmp_path / name)]
        subprocess.run(run, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True)
    one, two = (rv.Results.load(tmp_path / name).models[0] for name in ("one", "two"))
    assert one.cells == two.cells
    assert one.summary == two.summary
