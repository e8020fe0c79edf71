"""`robustvit demo`: what this package does, on any machine, without a download."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from robustvit.cli.console import print_json, tables, working

if TYPE_CHECKING:
    import numpy as np

    from robustvit.recording import Tape

__all__ = ["demo"]

TOLERANCE = 1e-4
"""Largest deviation from the reference logits."""

CAPTION = (
    "1 is uniform attention, what a token gets that nobody prefers. The three blocks share one colour scale; 0.5 % at either "
    "end is cut off.\nThe weights are the deterministic reference weights, not trained: the maps show that recording works, "
    "not what a trained network looks at."
)


def demo(
    *,
    output: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("demo"),
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Build a network, load reference weights, check its logits, list the networks and draw attention maps.

    Args:
        output: folder for attention.png; created if needed.
        as_json: print JSON.
    """
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"--output {output} is a file; give a folder")
    output.mkdir(parents=True, exist_ok=True)
    path = output / "attention.png"
    with working("Building fan_vit_tiny with reference weights"):
        from robustvit import OFFICIAL, from_official
        from robustvit.files import check_writable
        from robustvit.reference import load_reference

        check_writable(path)
        reference = load_reference()
        model = from_official(reference.published_name, reference.weights()).eval()
        deviation = _deviation(model, reference.input_size, reference.logits)
    if not deviation <= TOLERANCE:
        raise RuntimeError(f"the logits differ from the reference by {deviation:.1e}, more than {TOLERANCE:.0e}")
    name = OFFICIAL[reference.published_name].architecture

    from robustvit.cli.attention_figure import save_attention_figure
    from robustvit.cli.models import describe_networks, matching_networks, network_table
    from robustvit.reference.picture import draw_shapes

    rows = describe_networks(matching_networks("*"))
    with working("Drawing attention maps"):
        picture = draw_shapes(reference.input_size[0])
        title = f"Attention of {name}, recorded from outside"
        save_attention_figure(path, picture, _record(model, picture), title, CAPTION)
    if as_json:
        networks = [row.to_json() for row in rows]
        print_json({"network": name, "deviation": deviation, "tolerance": TOLERANCE, "picture": path, "networks": networks})
        return
    console = tables()
    console.print(network_table(rows))
    console.print(f"{name}: logits within {deviation:.1e} of the reference (tolerance {TOLERANCE:.0e})", highlight=False)
    console.print(f"attention maps: {path}", highlight=False, soft_wrap=True, markup=False)


def _deviation(model: object, size: tuple[int, int], logits: object) -> float:
    import torch

    from robustvit.reference import reference_images

    with torch.no_grad():
        got = model(reference_images(size))  # type: ignore[operator]
    return float((got[:, :8] - logits).abs().max())


def _record(model: object, picture: np.ndarray) -> Tape:
    import torch
    from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD

    from robustvit import record

    mean, std = (torch.tensor(v)[:, None, None] for v in (IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD))
    image = (torch.from_numpy(picture).permute(2, 0, 1) / 255 - mean) / std
    with torch.no_grad(), record(model) as tape:  # type: ignore[arg-type]
        model(image[None])  # type: ignore[operator]
    return tape
