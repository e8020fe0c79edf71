"""A damaged label map is left out, counted and named as a damaged image is; wrong values stop a run before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from map_trees import save, write_acdc, write_plain
from refusals import refused

import robustvit as rv
from robustvit.data.label_maps import LabelValueError
from robustvit.data.map_layouts import open_maps
from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import protocol_of
from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.samples import SampleSet, SomeSamples
from robustvit.data.scenes.dataset import SEMANTIC_NAMES
from robustvit.evaluation import passes
from robustvit.evaluation.plan import plan
from robustvit.evaluation.settings import Settings
from robustvit.tasks.segmentation import Segmentation
from robustvit.training.distributed import Workers
from robustvit.training.validation import Validation


@pytest.fixture(scope="module")
def segmenter() -> Any:
    torch.manual_seed(0)
    return rv.create_model("fan_hybrid_nano/segformer", num_classes=11).eval()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_plain(tmp_path / "plain", {"val": 5}, classes=list(SEMANTIC_NAMES))


def damage(root: Path, number: int) -> Path:
    path = root / f"labels/val/val{number}.png"
    path.write_bytes(path.read_bytes()[:60])
    return path


def without(root: Path, *numbers: int) -> SomeSamples:
    return SomeSamples(open_maps(root), [i for i in range(5) if i not in numbers])


def test_an_evaluation_leaves_out_and_names_damaged_label_maps(segmenter: Any, plain: Path) -> None:
    expected = rv.evaluate(segmenter, without(plain, 1, 3), suite=["clean", "fog"], severity=3)
    path = damage(plain, 1)
    (plain / "images/val/val3.jpg").write_bytes(b"damaged")
    found = rv.evaluate(segmenter, plain, suite=["clean", "fog"], severity=3, examples=5)
    skipped = dict(found.models[0].skipped)
    assert skipped.keys() == {"val1.jpg", "val3.jpg"}
    assert f"label map {path}" in skipped["val1.jpg"]
    assert found.models[0].summary["clean_miou"].value == expected.models[0].summary["clean_miou"].value


def test_a_label_map_that_is_damaged_during_the_run_is_left_out_too(
    segmenter: Any, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = rv.evaluate(segmenter, without(plain, 1), suite="clean", batch_size=2)
    check = passes.check_values
    monkeypatch.setattr(passes, "check_values", lambda samples: None)
    path = damage(plain, 1)
    found = rv.evaluate(segmenter, plain, suite="clean", batch_size=2, examples=0)
    monkeypatch.setattr(passes, "check_values", check)
    ((name, reason),) = found.models[0].skipped
    assert (name, str(path) in reason) == ("val1.jpg", True)
    assert found.models[0].summary["clean_miou"].value == expected.models[0].summary["clean_miou"].value


def test_unknown_values_stop_an_evaluation_before_it_starts_unless_a_limit_leaves_them_out(
    segmenter: Any, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.of(plain, Segmentation(), "clean", limit=2)
    chosen = {sample.id for sample in plan(segmenter, settings)[0].samples}
    other = next(i for i in range(5) if f"val{i}.jpg" not in chosen)
    path = save(plain / f"labels/val/val{other}.png", np.full((32, 48), 77, np.uint8))
    rv.evaluate(segmenter, plain, suite="clean", limit=2)
    monkeypatch.setattr(passes.MemoryPass, "run", lambda *given: pytest.fail("the work has started"))
    with refused(LabelValueError, "1 of 5", path, 77):
        rv.evaluate(segmenter, plain, suite="clean")


def test_unknown_values_of_a_later_suite_stop_an_evaluation_before_it_starts(tmp_path: Path) -> None:
    network = rv.create_model("fan_hybrid_nano/segformer", num_classes=19).eval()
    write_acdc(tmp_path / "data/acdc")
    write_plain(tmp_path / "data", {"val": 2}, classes=list(CITYSCAPES.names))
    (label,) = (tmp_path / "data/acdc/gt/snow/val").rglob("*_000001_gt_labelTrainIds.png")
    save(label, np.full((32, 48), 40, np.uint8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes.MemoryPass, "run", lambda *given: pytest.fail("the work has started"))
        with refused(LabelValueError, "1 of 8", label, 40):
            rv.evaluate(network, tmp_path / "data", suite=["clean", "acdc"])


def validation(samples: SampleSet, network: Any) -> Validation:
    protocol = protocol_of("native", network, None)
    task = Segmentation().bind_in_order(11)
    return Validation(task, samples, protocol, Normalisation.of(network), batch_size=2, workers=Workers())


def test_validation_of_training_leaves_out_and_names_damaged_label_maps(segmenter: Any, plain: Path) -> None:
    expected = validation(without(plain, 1), segmenter).score(segmenter)
    path = damage(plain, 1)
    found = validation(open_maps(plain), segmenter)
    for _ in range(2):  # decoded, and kept
        assert found.score(segmenter) == expected
        ((name, reason),) = found.unreadable
        assert (name, str(path) in reason) == ("val1.jpg", True)


def test_unknown_values_are_named_before_training_starts_unless_val_limit_leaves_them_out(segmenter: Any, plain: Path) -> None:
    path = save(plain / "labels/val/val2.png", np.full((32, 48), 77, np.uint8))
    validation(without(plain, 2), segmenter)
    with refused(LabelValueError, path, 77):
        validation(open_maps(plain), segmenter)
