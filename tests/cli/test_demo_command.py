"""`robustvit demo`, in a shortened form: the same steps with tiny networks, a few images and updates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from robustvit.cli import main
from robustvit.demo import contest
from robustvit.demo.findings import MOST_ALIKE, findings_chapter
from robustvit.evaluation.results import Value
from robustvit.models.registry import create_model
from robustvit.training.config import TrainConfig
from robustvit.training.train import train

HEADS = dict(width=16, hidden=32, anchor_scale=4, proposals=20, region_samples=16)


def shortened(config: TrainConfig) -> TrainConfig:
    small = {
        "fan_vit_nano": dict(embed_dims=[32], depths=[1], num_heads=[2]),
        "vit_nano": dict(embed_dim=32, depth=1, num_heads=2),
        "fan_hybrid_nano/segformer": dict(embed_dims=[32], depths=[1], num_heads=[2], stem_widths=[8, 16]),
        "vit_nano/segformer": dict(),
        "fan_vit_nano/faster_rcnn": dict(embed_dims=[32], depths=[4], num_heads=[2], **HEADS),
        "vit_nano/faster_rcnn": dict(embed_dim=32, depth=4, num_heads=2, **HEADS),
    }
    return replace(
        config,
        model=replace(config.model, options=small[config.model.name]),
        data=replace(config.data, train="scenes-easy:32", val="scenes-easy:8"),
        schedule=replace(config.schedule, epochs=1, warmup_epochs=0.0),
        loop=replace(config.loop, batch_size=16),
    )


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for task, whole in contest.CONTESTS.items():
        images = 10 if task == "classification" else 4  # one of each class: networks that know nothing get some right
        networks = {name: shortened(config) for name, config in whole.contestants.items()}
        monkeypatch.setitem(contest.CONTESTS, task, replace(whole, contestants=networks, images=images))


@pytest.mark.usefixtures("_short")
def test_demo_trains_both_measures_both_and_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--output", str(tmp_path / "demo")]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("clean accuracy", "retention", "vit_nano", "fan_vit_nano", "report.html"))
    files = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"report.html", "results.json", "results.csv", "vit_nano", "fan_vit_nano"} <= files
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "Results in words" in page
    assert "What the networks look at" in page
    assert "data:image/png;base64" in page
    assert main(["demo", "--output", str(tmp_path / "demo"), "--json"]) == 0  # nothing is trained again
    again = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in again["models"]] == ["vit_nano", "fan_vit_nano"]


@pytest.mark.usefixtures("_short")
def test_an_interrupted_demo_stops_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **options: object) -> object:
        return replace(train(*arguments, **options), updates_done=1, updates=2)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(contest, "train", interrupted)
        assert main(["demo", "--output", str(tmp_path / "demo")]) == 130
    assert "the same command" in capsys.readouterr().err
    assert not (tmp_path / "demo" / "report.html").exists()
    assert not (tmp_path / "demo" / "fan_vit_nano").exists()
    assert main(["demo", "--output", str(tmp_path / "demo")]) == 0


@pytest.mark.usefixtures("_short")
def test_findings_say_what_the_numbers_say_whichever_way(tmp_path: Path) -> None:
    results, measured = contest.demonstrate(tmp_path / "demo"), contest.CONTESTS["classification"]
    verdicts = {
        Value(0.1, 0.05, 0.15): "for the robust network",
        Value(-0.1, -0.15, -0.05): "the plain network is ahead",
        Value(0.1, -0.05, 0.25): "which may be chance",
    }
    for gap, verdict in verdicts.items():
        robust_minus_plain = results.between("fan_vit_nano", "vit_nano")
        differences = tuple(replace(d, summary=dict.fromkeys(d.summary, gap)) for d in robust_minus_plain)
        told = findings_chapter(replace(results, differences=differences), measured.compared, measured.kinds).paragraphs
        assert all(verdict in told[i] for i in (1, 2, 3))


def test_demo_refuses_a_file_as_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["demo", "--output", str(tmp_path / "taken")]) == 2
    assert "is a file; give a folder" in capsys.readouterr().err


@pytest.mark.usefixtures("_short")
def test_findings_call_networks_alike_only_where_they_are(tmp_path: Path) -> None:
    results, measured = contest.demonstrate(tmp_path / "demo"), contest.CONTESTS["classification"]

    def told(plain: int, robust: int, differs: str = "") -> str:
        sizes = zip(results.models, (plain, robust), strict=True)
        models = tuple(replace(model, parameters=size) for model, size in sizes)
        return findings_chapter(replace(results, models=models), measured.compared, measured.kinds, differs).paragraphs[0]

    assert "about the same size: 1,000 and 1,100 parameters" in told(1100, 1000)
    assert "1,000 and 1,340 parameters: the plain one has 34\N{NO-BREAK SPACE}% more" in told(1340, 1000)
    assert "1,500 and 1,000 parameters: the robust one has 50\N{NO-BREAK SPACE}% more" in told(1000, 1500)
    assert "tokens differ. Measuring took" in told(1000, 1000, "Their tokens differ.")


def test_the_segmenters_of_the_demo_have_about_the_same_size() -> None:
    sizes = []
    for config in contest.CONTESTS["segmentation"].contestants.values():
        model = config.model
        network = create_model(model.name, num_classes=11, img_size=model.img_size, tap=model.tap, **model.options)
        sizes.append(sum(p.numel() for p in network.parameters()))
    assert max(sizes) <= (1 + MOST_ALIKE) * min(sizes)


def test_help_of_the_demo_speaks_of_all_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    told = capsys.readouterr().out
    assert all(word in told for word in ("fan_vit_nano", "fan_hybrid_nano", "every pixel", "objects"))
    assert "same-size" not in told


@pytest.mark.slow
@pytest.mark.usefixtures("_short")
def test_the_demo_of_segmentation_compares_two_segmenters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--task", "segmentation", "--output", str(tmp_path / "demo")]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("clean mIoU", "retention", "vit_nano", "fan_hybrid_nano"))
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "Results in words" in page
    assert "4x4 pixels" in page


@pytest.mark.slow
@pytest.mark.usefixtures("_short")
def test_the_demo_of_detection_compares_two_detectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--task", "detection", "--output", str(tmp_path / "demo")]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("clean AP", "vit_nano", "fan_vit_nano"))
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "Results in words" in page
    assert "a plain vision transformer of four blocks" in page


@pytest.mark.slow
@pytest.mark.usefixtures("_short")
def test_another_seed_trains_other_networks_on_the_same_questions(tmp_path: Path) -> None:
    first, second = (contest.demonstrate(tmp_path / f"demo-{seed}", seed=seed) for seed in (0, 1))
    weights = [torch.load(next((tmp_path / f"demo-{s}/vit_nano/checkpoints").glob("*.pt")), weights_only=True) for s in (0, 1)]
    assert any(not torch.equal(a, b) for a, b in zip(weights[0]["ema"].values(), weights[1]["ema"].values(), strict=True))
    assert first.data == second.data
