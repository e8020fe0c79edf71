"""AutoAttack through its package: within its bounds, silent, and clear about what is missing."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace

import pytest
import torch
from refusals import refused
from torch import Tensor, nn

from robustvit.attacks import AutoAttackSettings, PixelNetwork, auto_attack

pytest.importorskip("pyautoattack")


def linear(classes: int = 10) -> PixelNetwork:
    """Costs nothing, and is easily fooled."""
    torch.manual_seed(0)
    return PixelNetwork(nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, classes)))


@pytest.fixture(scope="module")
def network() -> PixelNetwork:
    return linear()


@pytest.fixture(scope="module")
def scenes(network: PixelNetwork) -> tuple[Tensor, Tensor]:
    """Images that the network gets right, but for the last."""
    images = torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    labels = network(images).argmax(1)
    return images, torch.cat([labels[:-1], (labels[-1:] + 1) % 10])


@pytest.mark.parametrize(
    ("settings", "order"),
    [
        (AutoAttackSettings(4 / 255, parts=("apgd-ce",)), float("inf")),
        (AutoAttackSettings(0.5, "L2", parts=("apgd-ce",)), 2),
        (AutoAttackSettings(12.0, "L1", parts=("apgd-ce",)), 1),
        (AutoAttackSettings(16 / 255), float("inf")),
    ],
    ids=["linf", "l2", "l1", "standard"],
)
def test_right_answers_become_wrong_within_eps(
    settings: AutoAttackSettings, order: float, network: PixelNetwork, scenes: tuple[Tensor, Tensor]
) -> None:
    images, labels = scenes
    attacked = auto_attack(network, images, labels, settings, seed=1)
    size = (attacked - images).flatten(1).norm(order, dim=1)
    assert size.max() <= settings.eps * (1 + 1e-4)
    before, after = (network(x).argmax(1) == labels for x in (images, attacked))
    assert after.sum() < before.sum()
    assert not (after & ~before).any()
    assert (size[~before] == 0).all()  # what was wrong stays as it was


def test_it_is_repeatable_leaves_the_generators_alone_and_says_nothing(
    network: PixelNetwork, scenes: tuple[Tensor, Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    images, labels = scenes
    state, trace, level = torch.get_rng_state(), sys.gettrace(), logging.getLogger("auto-attack").level
    settings = AutoAttackSettings(2 / 255, parts=("apgd-ce", "square"))
    first = auto_attack(network, images[:2], labels[:2], settings, seed=1)
    assert torch.equal(first, auto_attack(network, images[:2], labels[:2], settings, seed=1))
    assert torch.equal(state, torch.get_rng_state())
    assert sys.gettrace() is trace
    assert logging.getLogger("auto-attack").level == level
    assert capfd.readouterr() == ("", "")


def test_what_happens_to_a_image_depends_on_its_seed_alone_and_in_groups_on_its_neighbours(
    network: PixelNetwork, scenes: tuple[Tensor, Tensor]
) -> None:
    images, labels = scenes
    settings = AutoAttackSettings(16 / 255, parts=("square",))
    ids = ["a", "b", "c"]
    together = auto_attack(network, images[:3], labels[:3], settings, seed=1, sample_ids=ids)
    turned = auto_attack(network, images[:3].flip(0), labels[:3].flip(0), settings, seed=1, sample_ids=ids[::-1])
    assert torch.equal(together, turned.flip(0))
    assert torch.equal(together[1:2], auto_attack(network, images[1:2], labels[1:2], settings, seed=1, sample_ids=["b"]))
    assert not torch.equal(together, auto_attack(network, images[:3], labels[:3], settings, seed=2, sample_ids=ids))
    grouped = replace(settings, group=3)
    assert not torch.equal(together, auto_attack(network, images[:3], labels[:3], grouped, seed=1, sample_ids=ids))


@pytest.mark.parametrize(("classes", "part"), [(3, "apgd-t"), (2, "apgd-dlr"), (2, "apgd-t")])
def test_with_few_classes_the_dlr_loss_does_not_exist(classes: int, part: str) -> None:
    few = linear(classes)
    images, labels = torch.rand(1, 3, 16, 16), torch.zeros(1, dtype=torch.long)
    with refused(ValueError, part, "DLR", classes):
        auto_attack(few, images, labels, AutoAttackSettings(parts=("apgd-ce", part)))  # type: ignore[arg-type]


def test_with_few_classes_the_other_parts_work() -> None:
    few = linear(2)
    images = torch.rand(2, 3, 16, 16)
    labels = few(images).argmax(1)  # right, so that there is something to attack
    attacked = auto_attack(few, images, labels, AutoAttackSettings(0.3, parts=("fab-t", "apgd-ce")))
    assert (few(attacked).argmax(1) != labels).any()


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, network: PixelNetwork) -> None:
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    with pytest.raises(RuntimeError, match=r"pip install 'robustvit\[attack\]'"):
        auto_attack(network, torch.rand(1, 3, 16, 16), torch.zeros(1, dtype=torch.long))
