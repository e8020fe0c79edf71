"""Attacks by name: what they are called, what they take, and that each is the function it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from refusals import refused
from torch import Tensor, nn

import robustvit as rv
from robustvit.attacks import ATTACKS, PGD_PRESETS, PixelNetwork, build_attack, cover_random, fgsm, pgd
from robustvit.attacks.chosen_patches import AdversarialPatches
from robustvit.metrics.measures import measure_of

QUICK: dict[str, dict[str, Any]] = {
    "patch-fool": {"iterations": 2},
    "patches-adversarial": {"fit_steps": 2},
    "autoattack": {"parts": ("apgd-ce",)},
}
LABELS = torch.tensor([1, 2, 3])


@pytest.fixture(scope="module")
def network() -> PixelNetwork:
    torch.manual_seed(0)
    return PixelNetwork(rv.create_model("vit_nano", num_classes=10).eval())


def pictures(count: int = 3) -> Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def sixteen() -> Any:
    while True:
        yield pictures(16)


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_is_described_and_keeps_pixels_in_range_and_the_network_as_it_was(
    name: str, network: PixelNetwork
) -> None:
    network.train()
    network.network.head.weight.requires_grad_(False)
    attack = build_attack(name, QUICK.get(name))
    attack.check(network, (32, 32))
    ready = attack.ready(network, sixteen(), 0)
    images = pictures()
    attacked = ready(network, images, LABELS, seed=0, sample_ids=["a", "b", "c"])
    assert attack.describe()
    assert attacked.shape == images.shape
    assert attacked.min() >= 0
    assert attacked.max() <= 1
    assert torch.equal(attacked, ready(network, images, LABELS, seed=0, sample_ids=["a", "b", "c"]))
    assert all(module.training for module in network.modules())
    assert [n for n, p in network.network.named_parameters() if not p.requires_grad] == ["head.weight"]
    assert all(parameter.grad is None for parameter in network.parameters())
    network.network.head.weight.requires_grad_(True)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_complete_in_its_class(name: str) -> None:
    attack = ATTACKS[name]
    key = build_attack(name).key
    assert attack.name == name
    assert attack.measures[0] == measure_of(f"{key}_accuracy")
    assert attack.measures[0].family == "attack"
    assert all(measure.key.startswith(key) for measure in attack.measures)
    assert all(option.text for option in attack.options())


def test_the_page_has_the_table_of_attacks() -> None:
    page = (Path(__file__).parents[2] / "docs" / "attacking.md").read_text()
    for name, attack in ATTACKS.items():
        flags = ", ".join(f"`--{option.flag.replace('_', '-')}`" for option in attack.options())
        assert f"| `{name}` | {attack.summary} | {attack.needs} | {flags} |" in page


def test_options_are_typed_and_shown_as_their_fields_say() -> None:
    options = {option.name: option for name in ("pgd", "patch-fool", "autoattack") for option in ATTACKS[name].options()}
    assert (options["random_start"].flag, options["random_start"].value(True)) == ("no_random_start", False)
    assert (options["limit"].flag, options["limit"].value("8/255")) == ("radius", 8 / 255)
    assert options["projection"].metavar == "textbook|published"
    assert options["iterations"].text.endswith("250 by default")
    with pytest.raises(ValueError, match="--eps 4/0"):
        options["eps"].value("4/0")


def test_settings_are_shown_as_a_reader_would_write_them() -> None:
    shown = ATTACKS["patch-fool"].shown(build_attack("patch-fool").describe())
    assert "pixels" not in shown
    assert "pixel_choice" not in shown
    assert "limit" not in shown
    assert ATTACKS["pgd"].shown(build_attack("pgd").describe())["step"] == "0.5/255"


def test_pgd_says_when_its_steps_do_not_reach_as_far_as_it_may_go() -> None:
    assert [*build_attack("pgd").remarks()] == []
    (remark,) = build_attack("pgd", {"preset": "rspc", "steps": 2}).remarks()
    assert "4/255 of 8/255" in remark


@pytest.mark.parametrize("name", ATTACKS)
def test_a_image_is_attacked_alike_in_any_batch(name: str, network: PixelNetwork) -> None:
    attack = build_attack(name, QUICK.get(name)).ready(network, sixteen(), 0)
    images = pictures()
    together = attack(network, images, LABELS, seed=4, sample_ids=["a", "b", "c"])
    alone = attack(network, images[2:], LABELS[2:], seed=4, sample_ids=["c"])
    agreeing = ((together[2:] - alone).abs() < 1e-5).float().mean()
    assert agreeing > 0.99  # the sign of a gradient near 0 may differ


def test_presets_and_explicit_values_reach_the_attacks(network: PixelNetwork) -> None:
    images = pictures()
    rspc = build_attack("pgd", {"preset": "rspc", "steps": 2})
    assert rspc.describe() == {"eps": 8 / 255, "step": 2 / 255, "steps": 2, "random_start": True}
    assert build_attack("fgsm", {"preset": "rspc"}).describe() == {"eps": 8 / 255}
    assert build_attack("fgsm", {"preset": "rspc", "eps": 0.1}).describe() == {"eps": 0.1}
    made = build_attack("pgd")(network, images, LABELS, seed=5)
    assert torch.equal(made, pgd(network, images, LABELS, PGD_PRESETS["rvt"], seed=5))
    assert torch.equal(build_attack("fgsm", {"eps": 0.02})(network, images, LABELS), fgsm(network, images, LABELS, 0.02))


def test_the_masks_of_random_patches_are_different_ones(network: PixelNetwork) -> None:
    attack = build_attack("patches-random", {"masks": 4})
    assert len(attack.rows) == len(set(attack.rows)) == 4
    seeds = [attack.row_seed(7, row) for row in range(4)]
    assert seeds[0] == 7
    assert len({*seeds, *(attack.row_seed(8, row) for row in range(4))}) == 8
    covered = [attack(network, pictures(), LABELS, seed=seed) for seed in seeds]
    assert torch.equal(covered[0], cover_random(network, pictures(), LABELS, seed=7))
    assert not torch.equal(covered[0], covered[1])


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("pgdd", {}, "there is no attack 'pgdd'; did you mean pgd"),
        ("pgd", {"preset": "afat"}, "there is no preset 'afat'; choose one of rvt, rspc"),
        ("fgsm", {"steps": 3}, "fgsm has no option 'steps'; it has eps, preset"),
        ("fgsm", {"eps": 8}, "eps=8 is not possible"),
        ("pgd", {"steps": 0}, "steps=0 is not possible"),
        ("patches-random", {"rho": 0.0}, "rho=0 is not possible"),
        ("patches-random", {"masks": 0}, "masks=0 is not possible"),
        ("patches-adversarial", {"fit_steps": 0}, "fit_steps=0 is not possible"),
        ("autoattack", {"norm": "L3", "eps": 1.0}, "norm='L3' is not known"),
        ("patches-adversarial", {"fit_steps": 3, "corruption_model": "runs/afat"}, "fit_steps has no effect"),
        ("patches-adversarial", {"patch_size": 8, "corruption_model": "runs/afat"}, "patch_size=8 has no effect"),
        ("autoattack", {"norm": "L2"}, "needs an eps of its own"),
        ("autoattack", {"version": "rand"}, "version='rand' is not known"),
        ("autoattack", {"parts": ("pgd",)}, "has no part 'pgd'"),
        ("autoattack", {"eps": 0.0}, "eps=0 is not possible for Linf"),
        ("autoattack", {"group": 0}, "group=0 is not possible; give at least 1"),
    ],
)
def test_wrong_options_say_what_is_possible(name: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        build_attack(name, options)


def test_a_network_without_attention_is_attacked_where_that_needs_none() -> None:
    torch.manual_seed(0)
    convolutional = PixelNetwork(timm.create_model("resnet10t", num_classes=10).eval())
    for name in ("fgsm", "pgd", "patches-random", "autoattack"):
        attack = build_attack(name, QUICK.get(name))
        attack.check(convolutional, (32, 32))
        assert attack(convolutional, pictures(), LABELS).shape == (3, 3, 32, 32)
    with refused(ValueError, "patch-fool", "ResNet", "attention"):
        build_attack("patch-fool").check(convolutional, (32, 32))
    build_attack("patches-adversarial").check(convolutional, (32, 32))  # by its residual blocks
    without_blocks = PixelNetwork(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10)))
    with refused(ValueError, "patches-adversarial", "attention", "residual"):
        build_attack("patches-adversarial").check(without_blocks, (32, 32))


def test_what_does_not_fit_the_network_is_found_before_the_attack(network: PixelNetwork) -> None:
    for name, options, told in (
        ("patch-fool", {"pixels": 17}, "17 pixels are more than the 16"),
        ("patch-fool", {"patches": 65}, "65 patches are more than the 8x8"),
        ("patches-random", {"patch_size": 5}, "patches of 5 pixels do not tile 32x32"),
        ("patches-adversarial", {"patch_size": 64}, "patches of 64 pixels do not tile 32x32"),
    ):
        with pytest.raises(ValueError, match=told):
            build_attack(name, options).check(network, (32, 32))


def test_covering_chosen_patches_needs_the_network_that_chooses(network: PixelNetwork) -> None:
    with pytest.raises(RuntimeError, match="no corruption network yet"):
        AdversarialPatches()(network, pictures(), LABELS)


def test_a_network_in_half_precision_is_attacked_in_single_precision() -> None:
    torch.manual_seed(0)
    half = PixelNetwork(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10)).bfloat16())
    attacked = build_attack("pgd")(half, pictures(), LABELS)
    assert attacked.dtype == torch.float32
    assert (attacked - pictures()).abs().max() <= 1 / 255 + 1e-6
