"""`robustvit predict`, and the flags of tasks that `eval`, `attack` and `predict` have."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from robustvit.cli import main
from robustvit.cli.task_flags import flags_class
from robustvit.predicting.films import write_film
from robustvit.runtime.checked_json import read_checked_json
from robustvit.tasks.options import PREDICTION_FORMS, TASK_OPTIONS

SEGMENTER = ("fan_hybrid_nano/segformer", "--untrained", "--num-classes", "11", "--img-size", "32", "32")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for i in range(3):
        pixels = np.random.default_rng(i).integers(0, 256, (32, 40, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{i}.png")
    return tmp_path / "images"


def test_predict_writes_files_and_prints_what_it_wrote(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (images / "broken.jpg").write_bytes(b"")
    line = ["predict", *SEGMENTER, "--images", str(images), "--output", str(tmp_path / "out"), "--corruption", "fog"]
    assert main([*line, "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == read_checked_json(tmp_path / "out/predictions.json")
    assert "broken.jpg" in printed.err
    assert "untrained" in printed.err
    assert len(list((tmp_path / "out/comparisons").iterdir())) == 3
    assert main([*line, "--resume"]) == 0
    assert "fog 3" in capsys.readouterr().out


def test_predict_of_a_classifier_takes_top(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["predict", "vit_pico", "--images", str(images / "1.png"), "--output", str(tmp_path / "out"), "--top", "2"]
    assert main(line) == 0
    heading, *rows = (tmp_path / "out/predictions.csv").read_text().splitlines()
    assert heading.endswith("class_2,probability_2")
    assert len(rows) == 1
    assert rows[0].startswith("1.png,")


def test_predict_of_a_detector_takes_the_least_score(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    detector = ("fan_hybrid_nano/faster_rcnn", "--untrained", "--num-classes", "10", "--img-size", "32", "32")
    line = ["predict", *detector, "--images", str(images), "--output", str(tmp_path / "out"), "--least-score", "0.05"]
    assert main(line) == 0
    assert "detections.json" in capsys.readouterr().err
    assert {entry["image_id"] for entry in json.loads((tmp_path / "out/detections.json").read_text())} <= {
        "0.png",
        "1.png",
        "2.png",
    }
    assert main([*line[:-1], "2"]) == 2
    assert "least_score=2" in capsys.readouterr().err
    line = ["predict", *SEGMENTER, "--images", str(images), "--output", str(tmp_path / "no"), "--least-score", "0.5"]
    assert main(line) == 2
    assert "--least-score is an option of detection" in capsys.readouterr().err


def test_predict_counts_images_and_frames_in_words_and_names_the_legend(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["predict", *SEGMENTER, "--images", str(images / "1.png"), "--output", str(tmp_path / "one")]
    assert main(line) == 0
    assert "1 image predicted: " in (told := capsys.readouterr().err)
    assert "legend.png (the colours of the classes)" in told
    pytest.importorskip("av")
    write_film(tmp_path / "film.mp4", [Image.open(path) for path in sorted(images.iterdir())], Fraction(5))
    assert main(["predict", *SEGMENTER, "--images", str(tmp_path / "film.mp4"), "--output", str(tmp_path / "film")]) == 0
    assert "3 frames predicted: labels/*.png, predictions.mp4, legend.png" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "attack"])
def test_help_speaks_of_segmenters_and_shows_no_empty_defaults(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert all(word in told for word in ("segmenter's mIoU", "label maps", "Cityscapes", "ACDC"))
    assert "(default: )" not in told


def test_options_of_a_task_reach_the_result(tmp_path: Path) -> None:
    how = ["--window", "24", "24", "--stride", "8", "16", "--fit", "64", "48", "--flip", "--scales", "0.75", "1.0"]
    line = ["eval", *SEGMENTER, "--data", "scenes:2", "--suite", "clean", "--output", str(tmp_path / "out")]
    assert main([*line, *how]) == 0
    inference = read_checked_json(tmp_path / "out/results.json")["data"]["inference"]
    asked = {"window": [24, 24], "stride": [8, 16], "fit": [64, 48], "flip": True, "scales": [0.75, 1.0]}
    assert inference == {**asked, "batch": 2}
    assert main(line) == 2  # another run: the result of this one is not replaced
    assert main([*line, *how, "--resume"]) == 0


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (("eval", "vit_pico", "--data", "scenes:2", "--window", "16", "16"), "--window"),
        (("attack", "vit_pico", "--data", "scenes:2", "--attack", "fgsm", "--flip"), "--flip"),
        (("predict", "vit_pico", "--images", "scenes:2", "--fit", "64", "32"), "--fit"),
        (("predict", "vit_pico", "--images", "scenes:2", "--label-ids"), "--label-ids"),
        (("predict", *SEGMENTER, "--images", "scenes:2", "--top", "3"), "--top"),
        (("eval", *SEGMENTER, "--data", "scenes:2", "--stride", "8", "8"), "stride=(8, 8)"),
        (("eval", *SEGMENTER, "--data", "scenes:2", "--window", "8", "8", "--stride", "9", "8"), "stride=(9, 8)"),
        (("predict", "vit_pico", "--images", "scenes:2", "--top", "0"), "top=0"),
        (("predict", "vit_pico", "--images", "scenes:2", "--severity", "2"), "--severity"),
        (("predict", "vit_pico", "--images", "nowhere"), "nowhere"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    line: tuple[str, ...], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line, "--output", str(tmp_path / "out")]) == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_flag_of_a_task_must_not_be_one_of_the_command() -> None:
    with pytest.raises(ValueError, match="window"):
        flags_class([TASK_OPTIONS], ["window"])
    flags: Any = flags_class([TASK_OPTIONS, PREDICTION_FORMS], [])()
    assert flags.window is None
    assert flags.top is None


def test_help_of_predict_needs_no_torch() -> None:
    code = "import sys; from robustvit.cli import predict, eval; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
