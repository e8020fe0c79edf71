"""The deterministic weights of the published dense networks, and the described maps of the reference values."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import torch
from reference_weights import STATE_DICTS, fill
from torch import Tensor

FOLDER = Path(__file__).parent / "reference" / "dense"
SEGMENTERS: dict[str, dict] = json.loads(gzip.decompress((FOLDER / "segmentation_state_dicts.json.gz").read_bytes()))
DETECTORS: dict[str, dict] = json.loads(gzip.decompress((FOLDER / "detection_state_dicts.json.gz").read_bytes()))
DETECTION: dict[str, dict] = json.loads((FOLDER / "detection_outputs.json").read_text())
SEGMENTATION: dict[str, dict] = json.loads((FOLDER / "segmentation_outputs.json").read_text())


def dense_keys(entry: dict[str, Any]) -> dict[str, list[int]]:
    """Name -> shape of every tensor in a published dense checkpoint."""
    backbone = entry["backbone"]
    classifier = STATE_DICTS[backbone["published"]]["keys"]
    own = {f"backbone.{name}": shape for name, shape in classifier.items() if name not in backbone["without"]}
    return own | backbone["plus"] | entry["keys"]


def dense_weights(entry: dict[str, Any], variant: str = "") -> dict[str, Tensor]:
    """Its tensors, filled by the rule of the reference values."""
    return {name: fill(name, shape, variant) for name, shape in dense_keys(entry).items()}


def assert_described(ours: Tensor, described: dict[str, Any]) -> None:
    """A map is the one that was described by its shape, moments and some of its values."""
    assert list(ours.shape) == described["shape"]
    values = ours.double().flatten()
    close: Any = dict(rtol=1e-4, atol=1e-4)
    expected = torch.tensor(described["values"], dtype=torch.float64)
    torch.testing.assert_close(values[torch.tensor(described["at"])], expected, **close)
    moments = torch.stack([values.mean(), values.std(correction=0)])
    torch.testing.assert_close(moments, torch.tensor([described["mean"], described["std"]], dtype=torch.float64), **close)
