"""How images are resized and cropped: a setting of the protocol and of the recipe, for clean and corrupted images alike."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from grey_network import ByGrey, grey, save_classes
from PIL import Image
from refusals import refused
from torch import nn

import robustvit as rv
from robustvit.cli import main
from robustvit.data.protocols import protocol_of
from robustvit.training.checks import check_combination
from robustvit.training.config_io import ConfigError, load_config

NOISE = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)


class Seen(ByGrey):
    """Keeps what it is shown."""

    def __init__(self, side: int) -> None:
        super().__init__(10, side)
        self.inputs: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inputs.append(x.clone())
        return super().forward(x)


def save_cifar_c(root: Path, first: np.ndarray) -> Path:
    """Ten images at each severity; the first of class 0 is `first`."""
    root.mkdir(parents=True)
    images = np.stack([first, *(grey(k) for k in range(1, 10))])
    for name in rv.corruption_names("common15"):
        np.save(root / f"{name}.npy", np.tile(images, (5, 1, 1, 1)))
    np.save(root / "labels.npy", np.tile(np.arange(10), 5))
    return root


def test_the_crop_of_afat_resizes_224_to_256_bicubically() -> None:
    protocol = protocol_of("model", ByGrey(side=224), crop_pct=0.875, interpolation="bicubic")
    assert (protocol.short_side, protocol.size, protocol.interpolation) == (256, (224, 224), "bicubic")
    enlarged = np.array(Image.fromarray(NOISE).resize((256, 256), Image.Resampling.BICUBIC))[16:240, 16:240]
    assert (protocol.apply(Image.fromarray(NOISE)).permute(1, 2, 0).numpy() == enlarged).all()
    assert protocol_of("model", ByGrey(side=224)).short_side == 224, "the network's own crop is 1"


def test_clean_cifar_and_cifar_c_become_the_input_in_the_same_way(tmp_path: Path) -> None:
    network = Seen(56)
    save_cifar_c(tmp_path / "CIFAR-10-C", NOISE)
    model = rv.evaluate(network, tmp_path, "cifar10-c", crop_pct=0.875, interpolation="bicubic", severity=1).models[0]
    assert (model.protocol["name"], model.protocol["short_side"]) == ("model", 64)
    enlarged = np.array(Image.fromarray(NOISE).resize((64, 64), Image.Resampling.BICUBIC))[4:60, 4:60]
    shown = [one for batch in network.inputs for one in (batch * 255).round().byte().permute(0, 2, 3, 1).numpy()]
    assert any((one == enlarged).all() for one in shown)
    network.inputs.clear()
    save_classes(tmp_path / "val", {f"c{k}": k for k in range(10)})
    Image.fromarray(NOISE).save(tmp_path / "val" / "c0" / "a.png")
    clean = rv.evaluate(network, tmp_path / "val", "clean", crop_pct=0.875, interpolation="bicubic").models[0]
    assert clean.protocol["short_side"] == 64
    shown = [one for batch in network.inputs for one in (batch * 255).round().byte().permute(0, 2, 3, 1).numpy()]
    assert any((one == enlarged).all() for one in shown)


def test_cifar_c_at_32_pixels_stays_as_it_is(tmp_path: Path) -> None:
    network = Seen(32)
    save_cifar_c(tmp_path / "CIFAR-10-C", NOISE)
    rv.evaluate(network, tmp_path, "cifar10-c", severity=1)
    shown = [one for batch in network.inputs for one in (batch * 255).round().byte().permute(0, 2, 3, 1).numpy()]
    assert any((one == NOISE).all() for one in shown)


def test_settings_that_no_image_would_feel_are_refused(tmp_path: Path) -> None:
    save_classes(tmp_path, {f"c{k}": k for k in range(10)})
    network = ByGrey()
    with refused(ValueError, "--crop-pct", "protocol model", "native"):
        rv.evaluate(network, tmp_path, "clean", protocol="native", crop_pct=0.9)
    with refused(ValueError, "--interpolation", "model or squash", "none"):
        rv.evaluate(network, tmp_path, "clean", protocol="none", interpolation="bicubic")
    with refused(ValueError, "crop_pct=1.5", "0.875"):
        rv.evaluate(network, tmp_path, "clean", crop_pct=1.5)
    with refused(ValueError, "'cubic'", "bicubic"):
        rv.evaluate(network, tmp_path, "clean", interpolation="cubic")
    with refused(ValueError, "square", "32x48"):
        rv.evaluate(network, tmp_path, "clean", size=(32, 48), crop_pct=0.9)


def test_an_explicit_crop_overrides_a_squash_of_the_network() -> None:
    network: nn.Module = ByGrey()
    network.pretrained_cfg |= {"crop_mode": "squash"}  # type: ignore[operator]
    assert protocol_of("model", network).name == "squash"
    assert protocol_of("model", network, crop_pct=0.5).short_side == 64


def test_the_command_takes_crop_and_interpolation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["eval", "vit_pico", "--data", "scenes-easy:4", "--suite", "clean", "--output", str(tmp_path)]
    assert main([*line, "--crop-pct", "0.5", "--interpolation", "bilinear", "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert (model["protocol"]["short_side"], model["protocol"]["interpolation"]) == (64, "bilinear")
    assert main([*line, "--protocol", "none", "--crop-pct", "0.5", "--output", str(tmp_path / "other")]) == 2
    assert "--crop-pct" in capsys.readouterr().err


def test_a_run_saves_its_crop_and_evaluations_of_it_do_the_same(tmp_path: Path) -> None:
    from robustvit.training.train import train

    changes = ["model.crop_pct=0.8", "model.interpolation=bilinear", "methods.patch_augment=null", "loop.max_updates=1"]
    config = load_config("afat/cifar10_rvt_small", changes, twin=True)
    train(config, tmp_path / "run")
    cfg = json.loads((tmp_path / "run" / "weights" / "config.json").read_text())["pretrained_cfg"]
    assert (cfg["crop_pct"], cfg["interpolation"], cfg["crop_mode"]) == (0.8, "bilinear", "center")
    saved = rv.create_model(f"local-dir:{tmp_path / 'run' / 'weights'}", pretrained=True)
    protocol = protocol_of("model", saved)
    assert (protocol.size, protocol.short_side, protocol.interpolation) == ((32, 32), 40, "bilinear")


@pytest.mark.parametrize("name", ["cifar10_rvt_small", "cifar100_fan_hybrid_small", "fan_hybrid_base", "fan_hybrid_tiny"])
def test_recipes_of_afat_validate_at_256_to_224(name: str) -> None:
    config = load_config(f"afat/{name}")
    assert (config.model.img_size, config.model.crop_pct, config.model.interpolation) == (224, 0.875, "bicubic")
    assert load_config("fan/hybrid_base").model.crop_pct is None


def test_published_networks_of_afat_are_cropped_and_those_of_fan_are_not() -> None:
    rspc = rv.create_model("fan_hybrid_tiny.rspc_in1k", device="meta")
    assert protocol_of("model", rspc).short_side == 256
    assert protocol_of("model", rv.create_model("fan_hybrid_tiny.fan_in1k", device="meta")).short_side == 224


def test_impossible_crops_of_a_recipe_are_refused() -> None:
    with refused(ValueError, "model.crop_pct", "0.875"):
        load_config("fan/vit_tiny", ["model.crop_pct=87.5"])
    with refused(ValueError, "model.interpolation", "bicubic"):
        load_config("fan/vit_tiny", ["model.interpolation=cubic"])
    with refused(ConfigError, "model.crop_pct", "segmentation"):
        check_combination(load_config("fan/segformer_tiny", ["model.crop_pct=0.9"]))
