"""One corruption, some severities, and folders that `robustvit corrupt` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from grey_network import ByGrey, save_classes
from refusals import refused

import robustvit as rv
from robustvit.cli import main
from robustvit.data.layouts import LayoutError
from robustvit.report.headline import headline

CLASSES = {f"c{k}": k for k in range(10)}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classes(tmp_path_factory.mktemp("set"), CLASSES)


def measured(data: Path, *options: str) -> Any:
    return rv.evaluate(ByGrey(), data, *options, examples=0).models[0]


def conditions(model: Any) -> list[tuple[str, int]]:
    return [(cell.condition, cell.severity) for cell in model.cells]


def test_a_corruption_is_a_suite_by_its_name(pictures: Path) -> None:
    model = measured(pictures, "fog")
    assert conditions(model) == [("clean", 0), *(("fog", severity) for severity in range(1, 6))]
    whole = measured(pictures, "weather")
    assert [model.accuracy("fog", s) for s in range(1, 6)] == [whole.accuracy("fog", s) for s in range(1, 6)]


def test_numbers_that_need_all_severities_are_left_out_and_the_result_says_so(pictures: Path) -> None:
    results = rv.evaluate(ByGrey(), pictures, "common15", severity=[5, 3], examples=0)
    model = results.models[0]
    assert {severity for _, severity in conditions(model)} == {0, 3, 5}
    assert len(model.cells) == 31
    assert {"clean_accuracy", "mean_accuracy", "retention"} <= set(model.summary)
    assert not {"mean_corruption_error", "relative_mean_corruption_error", "mean_accuracy_15"} & set(model.summary)
    assert model.measurements[0].corruption_errors == {}
    [note] = [note for _, note in results.remarks() if note.kind == "left-out"]
    assert "severities 3, 5" in note.text
    assert headline(results).claim.endswith("under common corruptions at severities 3 and 5")
    one = rv.evaluate(ByGrey(), pictures, "fog", severity=3, examples=0)
    assert conditions(one.models[0]) == [("clean", 0), ("fog", 3)]
    assert one.models[0].summary["mean_accuracy"] == one.models[0].cells[1].accuracy


def test_severities_that_cannot_be_or_change_nothing_are_refused(pictures: Path) -> None:
    with pytest.raises(ValueError, match="severity 6"):
        rv.evaluate(ByGrey(), pictures, "fog", severity=6)
    with refused(ValueError, "severity 3", "clean"):
        rv.evaluate(ByGrey(), pictures, "clean", severity=3)
    with refused(ValueError, "'fogg'", "did you mean fog"):
        rv.evaluate(ByGrey(), pictures, "fogg")


def corrupted(pictures: Path, folder: Path, *options: str) -> Path:
    assert main(["corrupt", str(pictures), str(folder), "--workers", "1", *options]) == 0
    return folder


@pytest.mark.parametrize("layout", [("--size", "32"), ("--layout", "coco")], ids=["imagenet", "coco"])
def test_a_folder_that_corrupt_wrote_in_part_is_measured_as_far_as_it_goes(
    layout: tuple[str, ...], pictures: Path, tmp_path: Path
) -> None:
    names = ("--names", "fog", "snow", "--severities", "1", "3", "--format", "png")
    folder = corrupted(pictures, tmp_path / "c", *names, *layout)
    model = measured(folder)  # the default suite, common15
    assert conditions(model) == [("snow", 1), ("snow", 3), ("fog", 1), ("fog", 3)]
    assert model.measurements[0].data["origin"] == "files on disk"
    [note] = [note for note in model.measurements[0].notes if note.kind == "left-out"]
    assert "4 of the 75 conditions" in note.text
    assert "mean_corruption_error" not in model.summary
    in_memory = measured(pictures, ["fog", "snow"])  # type: ignore[arg-type]
    assert [model.accuracy("fog", s) for s in (1, 3)] == [in_memory.accuracy("fog", s) for s in (1, 3)]
    assert conditions(measured(folder, "imagenet-c")) == conditions(model)
    assert conditions(rv.evaluate(ByGrey(), folder, "fog", severity=3).models[0]) == [("fog", 3)]
    with pytest.raises(LayoutError, match=r"nothing of frost"):
        measured(folder, "frost")
    with refused(LayoutError, "suite clean"):
        measured(folder, "clean")


def test_a_copy_that_is_not_finished_and_one_without_labels_are_refused(pictures: Path, tmp_path: Path) -> None:
    folder = corrupted(pictures, tmp_path / "c", "--names", "fog", "--severities", "1", "3", "--size", "32")
    (folder / "fog" / "1" / "c0" / "a.JPEG").rename(tmp_path / "taken away")
    with pytest.raises(LayoutError, match=r"9 of 10"):
        measured(folder)
    (folder / "fog" / "3").rename(folder / "elsewhere")
    with refused(LayoutError, "fog/3"):
        measured(folder)
    flat = corrupted(pictures / "c0", tmp_path / "flat", "--layout", "coco", "--names", "fog", "--severities", "1")
    with pytest.raises(LayoutError, match="has no class folders"):
        measured(flat)


def test_copies_of_another_size_than_the_input_are_resized_not_cut(pictures: Path, tmp_path: Path) -> None:
    folder = corrupted(pictures, tmp_path / "c", "--names", "fog", "--severities", "1", "--size", "64")
    assert measured(folder).protocol["name"] == "model"
    assert rv.evaluate(ByGrey(side=64), folder).models[0].protocol["name"] == "crop"
