"""Exported files compute what the network computes, appear whole, and say why when they cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from refusals import refused
from torch import Tensor, nn

import robustvit
from robustvit.models.exporting import ExportError, export_onnx, export_program
from robustvit.models.heads.token_head import TokenOutputs
from robustvit.runtime.files import write_whole


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).mean((2, 3))


class Branching(Small):
    """Python control flow on values, which no exporter can follow."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.sum() > 0 else x.mean((2, 3))


@pytest.fixture
def images() -> Tensor:
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_onnx_of_a_token_network_agrees_at_any_batch_size(tmp_path: Path, images: Tensor) -> None:
    import onnx
    import onnxruntime

    network = robustvit.create_model("fan_vit_nano", depths=(1,), tap=4, token_head=True)
    model = TokenOutputs(robustvit.fuse(network))
    exported = export_onnx(model, tmp_path / "nano.onnx", images, dynamic_batch=True)
    assert exported.max_difference <= 1e-4
    assert exported.input_shape == ("batch", 3, 32, 32)
    assert exported.outputs == {"logits": ("batch", 10), "token_logits": ("batch", 64, 10)}
    assert exported.size_bytes == exported.path.stat().st_size
    assert [path.name for path in tmp_path.iterdir()] == ["nano.onnx"]  # weights inside
    onnx.checker.check_model(onnx.load(exported.path))
    x = torch.randn(5, 3, 32, 32)
    session = onnxruntime.InferenceSession(str(exported.path))
    for got, expected in zip(session.run(None, {"images": x.numpy()}), model(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), expected, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_onnx_of_a_segmenter_agrees_at_any_batch_size(tmp_path: Path) -> None:
    import onnxruntime

    torch.manual_seed(0)
    model = robustvit.fuse(robustvit.create_model("fan_hybrid_nano/segformer", num_classes=5, tap=4).eval())
    exported = export_onnx(model, tmp_path / "segmenter.onnx", torch.randn(2, 3, 64, 96), dynamic_batch=True)
    assert exported.max_difference <= 1e-4
    assert exported.input_shape == ("batch", 3, 64, 96)
    assert list(exported.outputs.values()) == [("batch", 5, 64, 96)]
    x = torch.randn(3, 3, 64, 96)
    (logits,) = onnxruntime.InferenceSession(str(exported.path)).run(None, {"images": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(logits), model(x), rtol=0, atol=1e-4)


def test_program_agrees_and_has_a_fixed_batch_by_default(tmp_path: Path, images: Tensor) -> None:
    model = Small().eval()
    exported = export_program(model, tmp_path / "small.pt2", images)
    assert exported.max_difference <= 1e-4
    assert exported.input_shape == (2, 3, 32, 32)
    program = torch.export.load(exported.path).module()
    torch.testing.assert_close(program(images), model(images), rtol=0, atol=1e-4)
    with pytest.raises((RuntimeError, AssertionError)):
        program(images[:1])


@pytest.mark.parametrize("export", [export_onnx, export_program])
def test_failed_export_leaves_the_old_file_alone(export: object, tmp_path: Path, images: Tensor) -> None:
    path = tmp_path / "model.file"
    path.write_text("before")
    with refused(ExportError, "Branching"):
        export(Branching().eval(), path, images)  # type: ignore[operator]
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_file_that_differs_from_the_network_is_not_written(tmp_path: Path, images: Tensor) -> None:
    with pytest.raises(ExportError, match="differs from the network"):
        export_program(Small().eval(), tmp_path / "small.pt2", images, tolerance=-1.0)
    assert list(tmp_path.iterdir()) == []


def test_training_mode_is_refused(tmp_path: Path, images: Tensor) -> None:
    with pytest.raises(ValueError, match="training mode"):
        export_program(Small(), tmp_path / "small.pt2", images)


def test_dynamic_batch_needs_two_images(tmp_path: Path, images: Tensor) -> None:
    with pytest.raises(ValueError, match="at least 2 images"):
        export_program(Small().eval(), tmp_path / "small.pt2", images[:1], dynamic_batch=True)


def test_missing_package_names_the_extra(tmp_path: Path, images: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ExportError, match=r'pip install "robustvit\[export\]"'):
        export_onnx(Small().eval(), tmp_path / "small.onnx", images)


def test_network_over_2_gb_is_refused_for_onnx(tmp_path: Path, images: Tensor) -> None:
    with torch.device("meta"):
        large = nn.Linear(2**15, 2**14 + 64).eval()
    with refused(ExportError, "GiB", ".pt2"):
        export_onnx(large, tmp_path / "large.onnx", images)


def test_file_appears_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"

    def stop_halfway() -> None:
        with write_whole(path) as file:
            file.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_halfway()
    assert list(tmp_path.iterdir()) == []
    with write_whole(path) as file:
        file.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
