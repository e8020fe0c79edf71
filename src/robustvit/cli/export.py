"""`robustvit export`: a network in a file that runs without this package."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from robustvit.cli.console import print_json, tables, working

if TYPE_CHECKING:
    from torch import nn

    from robustvit.models.exporting import Exported

__all__ = ["export"]

Format = Literal["onnx", "pt2"]


def export(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")],
    *,
    output: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    file_format: Annotated[Format | None, tyro.conf.arg(name="format", metavar="{onnx,pt2}")] = None,
    num_classes: Annotated[int | None, tyro.conf.arg(metavar="K")] = None,
    tap: Annotated[int | str | None, tyro.conf.arg(metavar="K|KIND")] = None,
    token_head: bool = False,
    img_size: Annotated[tuple[int, int] | None, tyro.conf.arg(metavar="H W")] = None,
    batch_size: Annotated[int, tyro.conf.arg(metavar="B")] = 1,
    dynamic_batch: bool = False,
    no_fuse: bool = False,
    untrained: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Write a network to an ONNX or PyTorch (.pt2) file and compare the file with the network.

    Args:
        model: as for `robustvit eval`: NAME (ours, published or timm's; weights are downloaded), NAME=FILE, FILE,
            hf-hub:ID or local-dir:FOLDER.
        output: the file; it is written only if it agrees with the network to 1e-4.
        file_format: by default from the file name.
        num_classes: outputs of the classifier; by default those of the weights.
        tap: branches of token-aware pooling (4), or avg3x3, avg5x5, conv3x3, conv5x5, multi_kernel4.
        token_head: the network has STL's token head; the file returns class logits and token logits.
        img_size: height and width of the images; by default those of the network.
        batch_size: images per batch of the file.
        dynamic_batch: the file accepts any batch size instead.
        no_fuse: keep BatchNorm and layer scale; by default they are folded into the adjacent layers.
        untrained: allow random weights for a network given by NAME alone (to try things out).
        as_json: print JSON.
    """
    chosen = _check_arguments(output, file_format, num_classes, img_size, batch_size)
    with working(f"Building {model}"):
        from robustvit.models.exporting import check_onnx_installed, export_onnx, export_program
        from robustvit.models.fusing import fuse
        from robustvit.models.heads.token_head import TokenOutputs
        from robustvit.models.loading import load_model
        from robustvit.runtime.files import check_writable

        check_writable(output)
        if chosen == "onnx":
            check_onnx_installed()
        options = dict(num_classes=num_classes, tap=tap, token_head=token_head, img_size=img_size)
        given = {key: value for key, value in options.items() if value}
        network = load_model(model, untrained=untrained, **given)
        size = img_size or tuple(network.pretrained_cfg["input_size"][1:])
        module: nn.Module = network.eval().requires_grad_(False) if no_fuse else fuse(network)
        module = TokenOutputs(module) if token_head else module
    with working(f"Exporting {model}"):
        write = export_onnx if chosen == "onnx" else export_program
        example = _example(module, max(batch_size, 2) if dynamic_batch else batch_size, size)
        written = write(module, output, example, dynamic_batch=dynamic_batch)
    if as_json:
        facts = {"network": model, "is_untrained": network.is_untrained, "format": chosen, "fused": not no_fuse}
        print_json({**facts, **asdict(written)})
        return
    warning = "; UNTRAINED: its weights are random" if network.is_untrained else ""
    tables().print(f"{_summary(written)}{warning}", soft_wrap=True, markup=False)


def _summary(written: Exported) -> str:
    shapes = ", ".join(f"{key} {_shape(shape)}" for key, shape in written.outputs.items())
    made = f"{written.path}: {written.size_bytes / 1e6:.1f} MB, images {_shape(written.input_shape)} -> {shapes}"
    return f"{made}; largest difference from the network {written.max_difference:.1e}"


def _shape(shape: tuple[int | str, ...]) -> str:
    return "x".join(map(str, shape))


def _check_arguments(
    output: Path,
    file_format: Format | None,
    num_classes: int | None,
    img_size: tuple[int, int] | None,
    batch_size: int,
) -> Format:
    """Checks the arguments before anything heavy is imported; returns the format."""
    suffixes: dict[str, Format] = {".onnx": "onnx", ".pt2": "pt2"}
    chosen = file_format or suffixes.get(output.suffix)
    if chosen is None:
        raise ValueError(
            f"--output {output}: the suffix {output.suffix!r} does not say the format; use .onnx or .pt2, or give --format"
        )
    numbers: dict[str, int | None] = {"--num-classes": num_classes, "--batch-size": batch_size}
    numbers |= {"--img-size": min(img_size)} if img_size else {}
    for option, number in numbers.items():
        if number is not None and number < 1:
            raise ValueError(f"{option} must be at least 1, got {number}")
    return chosen


def _example(module: nn.Module, batch: int, size: tuple[int, ...]) -> Any:
    import torch

    in_chans = next(p.shape[1] for p in module.parameters() if p.ndim == 4)
    return torch.randn(batch, in_chans, *size, generator=torch.Generator().manual_seed(0))
