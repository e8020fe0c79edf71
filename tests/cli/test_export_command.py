"""`robustvit export`. The files themselves are tested in test_exporting.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import robustvit
from robustvit.cli import main
from robustvit.models.saved_folder import save_weights
from robustvit.reference import load_reference


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of rvt_nano with 7 classes."""
    path = tmp_path_factory.mktemp("weights") / "nano.pth"
    torch.manual_seed(0)
    torch.save({"state_dict": robustvit.create_model("rvt_nano", num_classes=7).state_dict()}, path)
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["export", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1].startswith("error: ") or "\nerror: " in "\n" + told.err
    return told.err


def test_onnx_file_computes_what_the_checkpoint_computes(
    tmp_path: Path, nano: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import onnxruntime

    file = tmp_path / "nano.onnx"
    assert main(["export", f"rvt_nano={nano}", "--output", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["outputs"] == {"logits": [1, 7]}
    assert told["is_untrained"] is False
    assert told["max_difference"] <= 1e-4
    assert [path.name for path in tmp_path.iterdir()] == ["nano.onnx"]
    model = robustvit.create_model("rvt_nano", num_classes=7).eval()
    model.load_state_dict(torch.load(nano, weights_only=True)["state_dict"])
    x = torch.randn(1, 3, 32, 32)
    (logits,) = onnxruntime.InferenceSession(str(file)).run(None, {"images": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(logits), model(x).detach(), rtol=0, atol=1e-4)


def test_program_has_token_logits_and_the_size_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--num-classes 5 --tap 2 --token-head --img-size 16 24 --batch-size 3 --no-fuse --untrained"
    assert main(["export", "fan_vit_nano", "--output", str(tmp_path / "nano.pt2"), *options.split()]) == 0
    told = capsys.readouterr()
    assert "images 3x3x16x24 -> logits 3x5, token_logits 3x24x5" in told.out
    assert "UNTRAINED" in told.out
    program = torch.export.load(tmp_path / "nano.pt2").module()
    class_logits, token_logits = program(torch.randn(3, 3, 16, 24))
    assert class_logits.shape == (3, 5)
    assert token_logits.shape == (3, 24, 5)


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[torch.nn.Module]:
    """The networks that reach the exporter, which does nothing: exporting is slow and tested elsewhere."""
    import robustvit.models.exporting

    seen: list[torch.nn.Module] = []

    def keep(
        model: torch.nn.Module, path: Path, example: torch.Tensor, *, dynamic_batch: bool
    ) -> robustvit.models.exporting.Exported:
        seen.append(model)
        return robustvit.models.exporting.Exported(path, 0, tuple(example.shape), {}, 0.0)

    monkeypatch.setattr(robustvit.models.exporting, "export_program", keep)
    return seen


def test_published_name_takes_a_published_checkpoint(
    tmp_path: Path, exported: list[torch.nn.Module], capsys: pytest.CaptureFixture[str]
) -> None:
    reference = load_reference()
    torch.save({"state_dict_ema": reference.weights()}, tmp_path / "published.pth.tar")
    model = f"{reference.published_name}={tmp_path / 'published.pth.tar'}"
    assert main(["export", model, "--output", str(tmp_path / "tiny.pt2")]) == 0
    expected = robustvit.fuse(robustvit.from_official(reference.published_name, reference.weights()))
    torch.testing.assert_close(exported[0].state_dict(), expected.state_dict(), rtol=0, atol=0)
    assert "UNTRAINED" not in capsys.readouterr().out


def test_a_name_and_the_folder_of_a_run_are_exported_with_their_weights(
    tmp_path: Path, exported: list[torch.nn.Module], capsys: pytest.CaptureFixture[str]
) -> None:
    trained = robustvit.create_model("fan_vit_nano", pretrained=True)
    save_weights(trained, trained.state_dict(), tmp_path / "best", {}, {})
    expected = robustvit.fuse(trained).state_dict()
    for model in ("fan_vit_nano", f"local-dir:{tmp_path / 'best'}", str(tmp_path / "best" / "model.safetensors")):
        assert main(["export", model, "--output", str(tmp_path / "a.pt2")]) == 0
        assert "UNTRAINED" not in capsys.readouterr().out
        torch.testing.assert_close(exported[-1].state_dict(), expected, rtol=0, atol=0)


def test_unknown_network_names_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "fan_vit_nano" in refused(capsys, "fan_vit_nanno", "--output", str(tmp_path / "a.pt2"))


def test_output_must_be_writable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for output, told in [
        (tmp_path / "missing" / "a.pt2", "there is no folder"),
        (tmp_path / "file" / "a.pt2", "is not a folder"),
        (tmp_path, "--format"),
    ]:
        assert told in refused(capsys, "fan_vit_nano", "--output", str(output))
    assert "is a folder" in refused(capsys, "fan_vit_nano", "--output", str(tmp_path), "--format", "pt2")


def test_unwritable_folder_is_refused_before_building(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tempfile

    def refuse(**options: object) -> None:  # what the system says of a read-only folder; the super-user may write anywhere
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    told = refused(capsys, "no_such_network", "--output", str(tmp_path / "a.pt2"))
    assert "cannot write into the folder" in told


def test_bad_checkpoints_are_refused(tmp_path: Path, nano: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "notes.pth"
    text.write_text("these are not weights")
    output = str(tmp_path / "a.pt2")
    for checkpoint, network, told in [
        (tmp_path / "missing.pth", "rvt_nano", "missing.pth"),
        (text, "rvt_nano", "a checkpoint"),
        (nano, "fan_vit_nano", "do not fit this FAN"),
        (nano, "vit_tiny_patch16_224", "do not fit this VisionTransformer"),
    ]:
        assert told in refused(capsys, f"{network}={checkpoint}", "--output", output)
    assert list(tmp_path.iterdir()) == [text]


def test_untrained_classifier_is_not_exported(tmp_path: Path, nano: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(capsys, f"rvt_nano={nano}", "--output", str(tmp_path / "a.pt2"), "--num-classes", "10")
    assert "the checkpoint has 7 classes" in told


@pytest.mark.parametrize(
    "arguments", ["rvt_nano", "fan_vit_nano --num-classes 5", "fan_vit_nano --token-head", "vit_nano --tap 4"]
)
def test_random_weights_need_the_word_untrained(arguments: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--untrained" in refused(capsys, *arguments.split(), "--output", str(tmp_path / "a.pt2"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("resnet18 --tap 4 --untrained", "TAP works on FAN"),
        ("fan_vit_nano --tap cubic --untrained", "tap='cubic' is not known"),
        ("fan_hybrid_nano --img-size 8 8 --untrained", "from 16x16 up"),
        ("fan_vit_nano --batch-size 0", "--batch-size must be at least 1"),
        ("rvt_tiny", "browser page"),
    ],
)
def test_impossible_options_are_refused(arguments: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told in refused(capsys, *arguments.split(), "--output", str(tmp_path / "a.pt2"))
