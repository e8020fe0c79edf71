"""FGSM and PGD on detectors: the loss of an image is the sum of what the network was trained with, over all anchors and
regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from object_trees import write_coco
from refusals import refused
from torch import Tensor, nn
from torchvision.models.detection import FasterRCNN

import robustvit as rv
from robustvit.attacks import ATTACKS, PgdSettings, PixelNetwork, fgsm, pgd
from robustvit.cli import main
from robustvit.data.normalisation import Normalisation
from robustvit.data.object_layouts import open_objects
from robustvit.metrics.measures import measure_of
from robustvit.tasks.detection import Detection
from robustvit.tasks.detector_inputs import DetectorInputs
from robustvit.tasks.tallies import Tallies

SMALL: Any = dict(num_classes=10, anchor_scale=4, region_samples=64, width=16, hidden=32)
SETTINGS = PgdSettings(8 / 255, 2 / 255, 3)


def detector(head: str = "mask_rcnn", seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return rv.create_model(f"fan_hybrid_nano/{head}", **SMALL).eval()


def attackable(**options: Any) -> PixelNetwork:
    return PixelNetwork(detector(), task=Detection(**options))


def scenes(count: int = 2, size: tuple[int, int] = (40, 64)) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Pixels and targets."""
    pairs = open_objects(f"scenes-easy:{count}", scene_size=size).read_many(range(count))  # type: ignore[attr-defined]
    images = torch.stack([torch.from_numpy(image.copy()).permute(2, 0, 1) for image, _ in pairs])
    return images.float() / 255, Detection().collate([objects for _, objects in pairs])


@pytest.fixture(scope="module")
def learned() -> Any:
    """A detector that has seen four images and nothing else."""
    network, (images, targets) = detector("faster_rcnn"), scenes(4, (64, 64))
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
    inputs = PixelNetwork(network).normalise(images)
    for _ in range(200):
        optimizer.zero_grad()
        sum(network(inputs, targets).values()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    return network.eval()


def test_pgd_raises_the_loss_within_eps_and_leaves_the_network_as_it_was() -> None:
    model, (images, targets) = attackable(), scenes()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    attacked = pgd(model, images, targets, SETTINGS)
    assert (attacked - images).abs().max() <= SETTINGS.eps + 1e-6
    with torch.no_grad():
        assert (model.losses(attacked, targets) > model.losses(images, targets)).all()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_the_loss_is_of_all_anchors_and_regions_so_that_nothing_is_drawn() -> None:
    model, (images, targets) = attackable(), scenes(1)
    torch.manual_seed(0)
    first = fgsm(model, images, targets)
    torch.manual_seed(1)
    assert torch.equal(fgsm(model, images, targets), first)


def test_what_happens_to_an_image_does_not_depend_on_its_batch() -> None:
    model, (images, targets) = attackable(), scenes()
    together = pgd(model, images, targets, SETTINGS, sample_ids=["a", "b"])
    alone = [pgd(model, images[i, None], targets[i : i + 1], SETTINGS, sample_ids=[name])[0] for i, name in enumerate("ab")]
    same = (together - torch.stack(alone)).abs() < 1e-6
    assert same.float().mean() > 0.99  # but for gradients of 0 to rounding, and regions that NMS just keeps


def test_images_are_attacked_through_the_resizing_of_the_task() -> None:
    model, (images, targets) = attackable(inputs=DetectorInputs(fit=(96, 96))), scenes(1)
    attacked = fgsm(model, images, targets, 4 / 255)
    assert attacked.shape == images.shape
    assert (attacked != images).float().mean() > 0.8
    seen = model.task.attacked_answer(model.network, model.normalise(images))
    assert tuple(seen["pyramid"][0].shape[2:]) == (64 // 4, 96 // 4)  # 60x96 pixels, and 4 of padding


def test_images_without_objects_or_without_masks_are_attacked_too() -> None:
    model, (images, targets) = attackable(), scenes()
    for left in (0, 2):
        some = [{key: value[:left] for key, value in target.items() if key != "masks"} for target in targets]
        attacked = fgsm(model, images, some)
        with torch.no_grad():
            assert (model.losses(attacked, some) > model.losses(images, some)).all()


def test_labels_are_those_of_the_network_where_its_classes_have_another_order() -> None:
    samples, network = open_objects("scenes-easy:2", scene_size=(40, 64)), detector()
    images, targets = scenes()
    own = PixelNetwork(network, task=Detection().bind(network, samples, (40, 64)))
    network.pretrained_cfg["label_names"] = list(samples.classes[::-1])
    bound = Detection().bind(network, samples, (40, 64))
    turned = [{**target, "labels": 9 - target["labels"]} for target in targets]
    with torch.no_grad():
        torch.testing.assert_close(PixelNetwork(network, task=bound).losses(images, targets), own.losses(images, turned))


@pytest.mark.slow
def test_pgd_costs_more_precision_than_noise_of_the_same_size(learned: Any) -> None:
    samples = open_objects("scenes-easy:4", scene_size=(64, 64))
    (images, targets), task = scenes(4, (64, 64)), Detection().bind(learned, samples, (64, 64))

    def precision(pixels: Tensor) -> float:
        found = task.predict_images(learned, pixels, Normalisation.of(learned))
        tallies = [task.tally(one, sample.target()) for one, sample in zip(found, samples, strict=True)]
        return task.scores(Tallies.stack(tallies))["box_ap"]

    eps = 16 / 255
    noise = eps * torch.randn(images.shape, generator=torch.Generator().manual_seed(0)).sign()
    attacked = pgd(PixelNetwork(learned, task=task), images, targets, PgdSettings(eps, eps / 4, 8))
    noisy = precision((images + noise).clamp(0, 1))
    assert precision(images) > 0.3
    assert noisy > 0.3
    assert precision(attacked) < 0.75 * noisy


def test_an_evaluation_attacks_detectors(tmp_path: Path) -> None:
    root, network = write_coco(tmp_path / "coco", {"val": 3}), detector()
    results = rv.evaluate(network, str(root), "clean", attacks=["fgsm", "pgd"], batch_size=2, examples=2)
    model = results.models[0]
    assert {"clean_box_ap", "fgsm_box_ap", "pgd_box_ap"} <= set(model.summary)
    attacked = next(cell for cell in model.cells if cell.condition == "pgd")
    assert attacked.largest_change == pytest.approx(1 / 255, rel=1e-3)
    assert {shown.attacked[0].attack for shown in model.attack_examples} == {"fgsm", "pgd"}
    assert measure_of("pgd_box_ap").label == f"{measure_of('box_ap').label} under {ATTACKS['pgd'].label}"


def test_the_command_attacks_a_detector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = ("fan_hybrid_nano/faster_rcnn", "--untrained", "--num-classes", "10", "--img-size", "32", "32")
    line = [
        "attack",
        *network,
        "--data",
        "scenes-easy:2",
        "--attack",
        "pgd",
        "--steps",
        "1",
        "--output",
        str(tmp_path / "out"),
    ]
    assert main(line) == 0
    assert "PGD" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["patch-fool", "patches-random", "patches-adversarial", "autoattack"])
def test_attacks_on_classes_are_refused(name: str) -> None:
    with refused(ValueError, name, "classification", "detection"):
        rv.evaluate(detector(), "scenes-easy:2", "clean", attacks=[name])


def test_targets_and_detectors_that_do_not_fit_are_refused() -> None:
    images, targets = scenes()
    with refused(ValueError, 2, 1):
        pgd(attackable(), images, targets[:1])
    backbone = nn.Conv2d(3, 4, 1)
    backbone.out_channels = 4  # type: ignore[assignment]
    foreign = FasterRCNN(backbone, 11, min_size=32, max_size=64)
    with refused(NotImplementedError, "FasterRCNN"):
        rv.evaluate(foreign.eval(), "scenes-easy:2", "clean", attacks=["pgd"], task="detection")
