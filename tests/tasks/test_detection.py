"""Detection as a task: what an image contributes, the numbers that come out, what answers mean, and drawings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused
from torch import nn

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.data.normalisation import Normalisation
from robustvit.metrics.box_matching import Found, Labelled
from robustvit.metrics.measures import measure_of
from robustvit.models.functions import FunctionNetwork
from robustvit.runtime.run_lengths import RunLengths
from robustvit.tasks.class_matching import ClassMismatchError
from robustvit.tasks.detection import Detection
from robustvit.tasks.detector_inputs import DetectorInputs
from robustvit.tasks.object_drawing import INVENTED, MISSED, draw_found, draw_labelled
from robustvit.tasks.tallies import Tallies

TASK = Detection(classes=("cat", "dog", "cow"), palette=((0, 200, 0), (0, 0, 250), (200, 100, 0)))
SIZE = (40, 60)
OBJECTS = [(2, 2, 22, 12), (30, 20, 50, 36)]


def dense(boxes: Any) -> np.ndarray:
    masks = np.zeros((len(boxes), *SIZE), bool)
    for mask, (x1, y1, x2, y2) in zip(masks, np.asarray(boxes, int).reshape(-1, 4), strict=True):
        mask[y1:y2, x1:x2] = True
    return masks


def labelled(boxes: Any = OBJECTS, classes: Any = (0, 1), *, masks: bool = True) -> Labelled:
    corners = np.array(boxes, np.float64).reshape(-1, 4)
    areas = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    runs = RunLengths.from_dense(dense(corners)) if masks else None
    return Labelled(corners, np.array(classes, np.int64), areas, np.zeros(len(corners), bool), runs)


def found(boxes: Any = OBJECTS, classes: Any = (0, 1), scores: Any = (0.9, 0.8), *, masks: bool = True) -> Found:
    corners = np.array(boxes, np.float64).reshape(-1, 4)
    runs = RunLengths.from_dense(dense(corners)) if masks else None
    return Found(corners, np.array(scores, np.float64), np.array(classes, np.int64), runs)


def tallies(*pairs: tuple[Found, Labelled]) -> Tallies:
    return Tallies.stack([TASK.tally(*pair) for pair in pairs])


def nothing(**about: Any) -> Found:
    return found((), (), (), **about)


# numbers


def test_all_objects_found_exactly_is_an_ap_of_one_by_box_and_by_mask() -> None:
    scores = TASK.scores(tallies((found(), labelled())))
    keys = ["box_ap", "box_ap50", "box_ap75", "mask_ap", "mask_ap50", "mask_ap75"]
    assert scores == dict.fromkeys(keys, pytest.approx(1.0))


def test_one_of_two_classes_found_is_half_of_the_ap() -> None:
    assert TASK.scores(tallies((found(classes=(0, 2)), labelled())))["box_ap"] == pytest.approx(0.5)


def test_an_image_keeps_its_boxes_in_the_order_of_their_scores() -> None:
    tally = TASK.tally(found(scores=(0.3, 0.7)), labelled())
    assert tally["corners"].tolist() == [list(map(float, box)) for box in OBJECTS[::-1]]
    assert tally["corners"].dtype == np.float32  # type: ignore[union-attr]


def test_what_boxes_and_masks_have_in_common_is_kept_once() -> None:
    names = set(TASK.tally(found(), labelled()))
    assert {name for name in names if name.startswith("mask_")} == {"mask_matched", "mask_ignored"}


@pytest.mark.parametrize("masks", [{"target": False}, {"prediction": False}])
def test_without_masks_on_either_side_there_is_no_mask_ap(masks: dict[str, bool]) -> None:
    pair = (found(masks=masks.get("prediction", True)), labelled(masks=masks.get("target", True)))
    assert [key for key in TASK.scores(tallies(pair, pair)) if key.startswith("mask")] == []


def test_an_image_without_detections_fits_models_with_and_without_masks() -> None:
    for masks in (True, False):
        scores = TASK.scores(tallies((nothing(masks=False), labelled()), (found(masks=masks), labelled())))
        assert ("mask_ap" in scores) == masks


def test_masks_for_some_images_only_are_refused() -> None:
    with refused(ValueError, "masks", "some images"):
        TASK.scores(tallies((found(masks=False), labelled()), (found(), labelled())))


def test_an_image_that_counts_twice_stands_for_two() -> None:
    pairs = [(found(), labelled()), (found(classes=(0, 2)), labelled()), (nothing(), labelled())]
    counted = TASK.score(tallies(*pairs), np.array([[1.0, 2.0, 0.0]]))
    repeated = TASK.scores(tallies(pairs[0], pairs[1], pairs[1]))
    assert {key: float(value[0]) for key, value in counted.items()} == pytest.approx(repeated)


def test_an_image_alone_is_scored_as_the_only_one_chosen() -> None:
    many = tallies((found(), labelled()), (found(classes=(0, 2)), labelled()), (nothing(), labelled((), ())))
    np.testing.assert_allclose(TASK.sample_scores(many), TASK.score(many, np.eye(3))["box_ap"])
    assert np.isnan(TASK.sample_scores(many)[2])


def test_sizes_without_objects_have_no_number() -> None:
    extras = TASK.extras(tallies((found(), labelled())))
    assert "box_ap_small" in extras
    assert not [key for key in extras if key.endswith(("_medium", "_large"))]
    assert all(np.isfinite(value) for value in extras.values())
    assert extras["detections"] == 2


def test_further_numbers_of_clean_images_are_details_but_for_ap() -> None:
    clean = TASK.clean_extras(tallies((found(), labelled())))
    assert {"clean_box_ap_small", "clean_box_ar1", "clean_mask_ar100"} <= clean.keys()
    assert all(measure_of(key).is_detail for key in clean)
    assert not measure_of("clean_box_ap50").is_detail


def test_a_class_without_objects_has_no_number() -> None:
    conditions = (CLEAN, Condition("fog", 1), Condition("fog", 3))
    rows = [tallies((found(), labelled())), *[tallies((found(classes=(0, 2)), labelled()))] * 2]
    cat, dog, cow = TASK.per_class(conditions, rows)
    assert cat.values["clean"] == {"class_ap": pytest.approx(1.0), "class_mask_ap": pytest.approx(1.0)}
    assert dog.values["corrupted"]["class_ap"] == 0
    assert dog.corruptions == {"fog": {"class_ap": 0.0, "class_mask_ap": 0.0}}
    assert (cow.images, cow.values) == (0, {})


def test_the_mean_height_of_precision_over_recall_is_ap() -> None:
    rows = [tallies((found(), labelled())), tallies((found(classes=(0, 2)), labelled()))]
    curves = TASK.curves((CLEAN, Condition("fog", 1)), rows)
    assert [one.title for one in curves] == [
        f"{kind}, {told}" for kind in ("Boxes", "Masks") for told in ("overlap 0.50", "mean over overlaps 0.50 to 0.95")
    ]
    for one in curves:
        assert {name: np.mean(line) for name, line in one.lines.items()} == pytest.approx({"clean": 1.0, "corrupted": 0.5})
    assert TASK.curves((CLEAN,), [tallies((nothing(masks=False), labelled((), (), masks=False)))]) == ()


def test_a_network_that_finds_nothing_is_remarked() -> None:
    samples: Any = SimpleNamespace(problems=("2 boxes have no area",))
    notes = TASK.notes(samples, tallies((nothing(), labelled())), is_untrained=False)
    assert [note.kind for note in notes] == ["annotations", "no-detections"]
    assert TASK.notes(SimpleNamespace(), tallies((found(), labelled())), is_untrained=False) == []  # type: ignore[arg-type]


# what answers mean


def samples_of(classes: tuple[str, ...] = TASK.classes, **about: Any) -> Any:
    told = dict(name="farm", classes=classes, palette=TASK.palette[: len(classes)], category_ids=(7, 8, 9)[: len(classes)])
    return SimpleNamespace(**{**told, "image_ids": None, "has_targets": True, "problems": (), **about})


def detector(classes: int, names: tuple[str, ...] = ()) -> Any:
    """Of ours, without weights."""
    network: Any = nn.Module()
    network.num_classes, network.detect = classes, None
    network.pretrained_cfg = {"label_names": names} if names else {}
    return network


def answers(answer: Any, labels: Any = "classes", samples: Any = None) -> list[Found]:
    """What the task makes of the answer of a function to one image."""
    network = FunctionNetwork(lambda images: [answer] * len(images) if isinstance(answer, dict) else answer)
    task = Detection(inputs=DetectorInputs(labels=labels)).bind(network, samples or samples_of(), SIZE)
    return task.predict_images(network, torch.zeros(1, 3, *SIZE, dtype=torch.uint8), Normalisation.of(network))


def given(labels: Any, **about: Any) -> dict[str, Any]:
    return {"boxes": [[1, 2, 9, 9]] * len(labels), "scores": [0.5] * len(labels), "labels": labels, **about}


@pytest.mark.parametrize(("kind", "labels"), [("classes", [0, 2]), ("from_one", [1, 3]), ("categories", [7, 9])])
def test_labels_of_a_users_model_mean_what_the_user_says(kind: str, labels: list[int]) -> None:
    assert answers(given(labels), kind)[0].classes.tolist() == [0, 2]


def test_categories_of_other_datasets_are_no_objects_of_this_one() -> None:
    assert answers(given([7, 44]), "categories")[0].classes.tolist() == [0]


@pytest.mark.parametrize(("kind", "label", "told"), [("classes", 3, "0 to 2"), ("from_one", 0, "1 to 3")])
def test_a_label_that_no_class_has_is_refused(kind: str, label: int, told: str) -> None:
    with refused(ValueError, f"the label {label}", told, "labels="):
        answers(given([label]), kind)


def test_answers_that_are_not_finite_are_no_objects() -> None:
    assert len(answers(given([0], boxes=[[np.nan, 0, 4, 4]]))[0].scores) == 0
    assert len(answers(given([0], scores=[np.inf]))[0].scores) == 0


@pytest.mark.parametrize("shape", [(1, *SIZE), (1, 1, *SIZE)])
@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.float32])
def test_masks_may_be_yes_and_no_or_probabilities(shape: tuple[int, ...], kind: torch.dtype) -> None:
    mask = torch.from_numpy(dense([OBJECTS[0]])).reshape(shape)
    (own,) = answers(given([0], masks=mask.to(kind) * 0.9 if kind == torch.float32 else mask.to(kind)))
    assert own.masks is not None
    assert own.masks.areas().tolist() == [200]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("boxes", "answers"),
        (torch.zeros(1, 4), "a Tensor"),
        (None, "a NoneType"),
        ([{}, {}], "2 answers for 1 images"),
        ({"boxes": []}, "the keys boxes"),
        (given([0], boxes=[[1, 2, 3]]), "boxes [1, 3]"),
        (given([0], scores=[0.1, 0.2]), "scores [2]"),
        (given([0.5]), "labels of the type float64"),
        (given([0], boxes=[["a"] * 4]), "boxes of the type"),
        (given([0], boxes=[[9, 9, 4, 4]]), "not as x, y, width, height"),
        (given([0], masks=torch.zeros(1, 5, 5)), "masks [1, 5, 5]"),
    ],
)
def test_wrong_answers_say_what_is_expected(answer: Any, told: str) -> None:
    with refused(ValueError, told):
        answers(answer)


def test_classes_are_matched_by_name_where_the_network_says_them() -> None:
    network = detector(4, ("cow", "dog", "pig", "cat"))
    bound = TASK.bind(network, samples_of(), SIZE)
    assert bound.places == {3: 0, 1: 1, 0: 2}


def test_another_number_of_classes_is_refused() -> None:
    with refused(ClassMismatchError, "80 classes", "farm has 3"):
        TASK.bind(detector(80), samples_of(), SIZE)


def test_options_for_foreign_models_are_refused_for_our_own() -> None:
    with refused(ValueError, "labels=from_one", "robustvit did not build"):
        Detection(inputs=DetectorInputs(labels="from_one")).bind(detector(3), samples_of(), SIZE)


# drawings


def colours_in(image: Image.Image) -> set[tuple[int, ...]]:
    return {tuple(pixel) for pixel in np.asarray(image).reshape(-1, 3).tolist()}


GREY = Image.new("RGB", (SIZE[1], SIZE[0]), (90, 90, 90))


def test_what_is_missed_is_dashed_and_what_is_invented_is_crossed() -> None:
    shown = draw_found(GREY, found(classes=(0, 2)), labelled(), TASK.classes, TASK.palette, side=240)
    assert {MISSED, INVENTED, TASK.palette[0], TASK.palette[2]} <= colours_in(shown)
    right = draw_found(GREY, found(), labelled(), TASK.classes, TASK.palette)
    assert not {MISSED, INVENTED} & colours_in(right)


def test_nothing_is_marked_where_nobody_knows_the_objects() -> None:
    shown = draw_found(GREY, found(masks=False), None, TASK.classes, TASK.palette)
    assert colours_in(shown) == {(90, 90, 90), TASK.palette[0], TASK.palette[1]}


def test_unlikely_detections_are_not_drawn() -> None:
    shown = draw_found(GREY, found(scores=(0.9, 0.1)), None, TASK.classes, TASK.palette)
    assert TASK.palette[1] not in colours_in(shown)


def test_drawings_have_the_side_that_is_asked_for_and_leave_the_image_as_it_is() -> None:
    before = GREY.tobytes()
    assert draw_found(GREY, found(), labelled(), TASK.classes, TASK.palette, side=360).size == (360, 240)
    assert draw_labelled(GREY, labelled(), TASK.classes, TASK.palette).size == GREY.size
    assert GREY.tobytes() == before


@pytest.mark.parametrize("size", [(1, 1), (2, 300)])
def test_objects_in_tiny_images_and_beyond_the_edge_are_drawn(size: tuple[int, int]) -> None:
    own = found([(-5, -5, 500, 500), (400, 400, 420, 420)], masks=False)
    shown = draw_found(Image.new("RGB", size), own, labelled(masks=False), TASK.classes, TASK.palette, side=200)
    assert max(shown.size) == 200


def test_of_many_objects_one_of_each_class_is_named() -> None:
    image = Image.new("RGB", (400, 300))
    row = [(10 + 90 * (i % 4), 40 + 80 * (i // 4), 80 + 90 * (i % 4), 100 + 80 * (i // 4)) for i in range(12)]
    few = draw_labelled(image, labelled(row[:4], [0, 0, 0, 1], masks=False), TASK.classes, TASK.palette)
    many = draw_labelled(image, labelled(row, [0] * 11 + [1], masks=False), TASK.classes, TASK.palette)
    inks = [int((np.asarray(shown) == 255).all(-1).sum()) for shown in (few, many)]  # of the letters
    assert inks[0] > inks[1] > 0


def test_an_answer_in_words_is_the_ap_of_the_image() -> None:
    assert TASK.answer(found(), labelled()).text.startswith("AP 100")
    assert TASK.answer(found(), labelled((), ())).text == "2 found"
    assert TASK.target_text(labelled([*OBJECTS, (0, 0, 9, 9)], (0, 1, 1))) == "2 dog, 1 cat"
    assert TASK.target_text(labelled((), ())) == "nothing"
