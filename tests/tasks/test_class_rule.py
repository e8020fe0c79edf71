"""STL's published rule as an option of classification."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import robustvit as rv
from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.cli import main
from robustvit.data.scenes.dataset import Scenes
from robustvit.tasks.classification import Classification
from robustvit.training.checks import check_combination
from robustvit.training.config_io import ConfigError, load_config

FUSED = Classification().with_options(token_fusion=True)


class TwoTokens(nn.Module):
    """Two classes, two tokens, and nothing to do with the image."""

    num_classes = 2
    token_head = nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_tokens(images)[0]

    def forward_tokens(self, images: Tensor) -> tuple[Tensor, Tensor]:
        B = len(images)
        return torch.tensor([[1.0, 0.5]]).expand(B, -1), torch.tensor([[[0.0, 2.0], [0.5, -4.0]]]).expand(B, -1, -1)


def test_half_of_the_largest_token_logit_of_each_class_is_added() -> None:
    inputs = torch.zeros(1, 3, 4, 4)
    assert FUSED.logits(TwoTokens(), inputs).tolist() == [[1.25, 1.5]]  # 1 + 0.5 / 2, 0.5 + 2 / 2
    assert Classification().logits(TwoTokens(), inputs).tolist() == [[1.0, 0.5]]
    assert [task.predict(TwoTokens(), inputs)[0].position for task in (FUSED, Classification())] == [1, 0]


def test_a_network_that_fuses_by_itself_is_not_fused_twice() -> None:
    torch.manual_seed(0)
    network = rv.create_model("vit_nano", token_fusion=True).eval()
    inputs = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(FUSED.logits(network, inputs), network(inputs))


def test_attacks_follow_the_same_rule() -> None:
    torch.manual_seed(0)
    network = rv.create_model("rvt_nano", token_head=True).eval()
    pixels = torch.rand(1, 3, 32, 32)
    attacked = PixelNetwork(network, task=FUSED)
    expected = FUSED.logits(network, attacked.normalise(pixels))
    torch.testing.assert_close(attacked(pixels).detach(), expected)
    assert not torch.allclose(PixelNetwork(network)(pixels), expected)


def test_results_say_which_rule_decided() -> None:
    network = rv.create_model("vit_pico", pretrained=True)
    for task, told in (
        (FUSED, "class logits + 0.5 * largest token logit (STL's published evaluation)"),
        (Classification(), "class logits alone"),
    ):
        results = rv.evaluate(network, "scenes-easy:4", "clean", task=task)
        assert results.models[0].measurements[0].data["answer"] == told
    plain = rv.evaluate(rv.create_model("vit_nano", pretrained=True), "scenes-easy:4", "clean")
    assert "answer" not in plain.models[0].measurements[0].data


def test_predictions_of_the_two_rules_are_no_parts_of_one_run() -> None:
    network, samples = rv.create_model("vit_pico"), Scenes("test", 4, 32)
    facts = [task.bind(network, samples, (32, 32)).facts() for task in (FUSED, Classification())]
    assert facts[0] != facts[1]


def test_a_network_without_a_token_head_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--data", "scenes-easy:4", "--token-fusion", "--output", str(tmp_path / "out")]
    for command in (["eval", "vit_nano", "--suite", "clean"], ["attack", "vit_nano", "--attack", "fgsm"]):
        assert main([*command, *given]) == 2
        assert "has no token head; leave it out, or build the network with token_head=True" in capsys.readouterr().err
    assert main(["eval", "vit_nano/segformer", "--untrained", "--data", "scenes:2", *given[2:]]) == 2
    assert "--token-fusion is an option of classification" in capsys.readouterr().err


def test_eval_and_attack_take_the_flag(tmp_path: Path) -> None:
    for command in (["eval", "--suite", "clean"], ["attack", "--attack", "fgsm"]):
        place = tmp_path / command[0]
        given = ["vit_pico", "--data", "scenes-easy:6", "--token-fusion", "--output", str(place)]
        assert main([command[0], *given, *command[1:]]) == 0
        assert rv.Results.load(place).models[0].measurements[0].data["answer"].startswith("class logits + 0.5")


@pytest.mark.parametrize("has_names", [True, False])
def test_predictions_say_which_rule_decided(has_names: bool, tmp_path: Path) -> None:
    """Also of images whose folders are no classes of the network."""
    folder = tmp_path / ("disc" if has_names else "holidays")
    folder.mkdir()
    Image.new("RGB", (32, 32), "red").save(folder / "a.png")
    for flags, told in (([], "class logits alone"), (["--token-fusion"], "class logits + 0.5")):
        out = tmp_path.parent / f"{tmp_path.name}_{len(flags)}"
        assert main(["predict", "vit_pico", "--images", str(folder.parent), *flags, "--output", str(out)]) == 0
        assert json.loads((out / "predictions.json").read_text())["form"]["answer"].startswith(told)


def test_validation_by_the_rule_needs_a_token_head() -> None:
    fused = "validation={token_fusion: true}"
    with pytest.raises(ConfigError, match=r"add model\.token_head=true"):
        check_combination(load_config(None, [fused]))
    check_combination(load_config("stl/student_small", [fused]))
