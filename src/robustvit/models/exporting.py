"""Writing networks to files that run without this package: ONNX, and PyTorch's exported programs (`.pt2`).

A file appears whole or not at all: it is written under a temporary name in the same folder, read back, run, compared with the
network, and only then renamed.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robustvit.runtime.files import check_writable, write_whole

__all__ = ["ExportError", "Exported", "export_onnx", "export_program"]

TOLERANCE = 1e-4
"""Largest absolute difference from the network that a file may have."""

ONNX_LIMIT = 2**31 - 2**20
"""Bytes of weights that one ONNX file can hold (protobuf's 2 GiB, less room for the graph)."""


class ExportError(RuntimeError):
    """The network could not be exported, or the file does not compute what the network computes."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Args:
        path: the file.
        size_bytes: its size.
        input_shape: [B, C, H, W]; B is "batch" where any batch size works.
        outputs: name -> shape.
        max_difference: largest absolute difference from the network's own outputs, over all outputs.
    """

    path: Path
    size_bytes: int
    input_shape: tuple[int | str, ...]
    outputs: dict[str, tuple[int | str, ...]]
    max_difference: float


def export_onnx(
    model: nn.Module, path: str | Path, example: Tensor, *, dynamic_batch: bool = False, tolerance: float = TOLERANCE
) -> Exported:
    """Writes a network as one ONNX file, weights inside, and compares it with the network in ONNX Runtime.

    Args:
        model: the network in evaluation mode; `robustvit.fuse` first makes it smaller and faster.
        path: the file; replaced if there is one.
        example: [B, C, H, W], the input it is made for and compared with.
        dynamic_batch: the file takes any batch size; `example` needs at least 2 images.
        tolerance: largest absolute difference that is accepted.

    Raises:
        ExportError: onnx is not installed, the network is over 2 GB, cannot be exported, or the file differs from it.

    Example:
        >>> export_onnx(robustvit.fuse(model), "model.onnx", torch.randn(1, 3, 224, 224)).max_difference
    """
    check_onnx_installed()
    weights = [*model.parameters(), *model.buffers()]
    size = sum(w.numel() * w.element_size() for w in weights)
    if size > ONNX_LIMIT:
        raise ExportError(f"this network has {size / 2**30:.1f} GiB of weights and one ONNX file holds 2: export it as .pt2")

    def write(file: Path, names: list[str]) -> None:
        torch.onnx.export(
            model,
            (example,),
            file,
            dynamo=True,
            external_data=False,
            verbose=False,
            input_names=["images"],
            output_names=names,
            dynamic_shapes=_dynamic_shapes(dynamic_batch),
        )

    def load(file: Path) -> Callable[[Tensor], Sequence[Tensor]]:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        return lambda x: [torch.from_numpy(y) for y in session.run(None, {"images": x.cpu().numpy()})]

    return _export(model, Path(path), example, dynamic_batch, tolerance, write, load)


def export_program(
    model: nn.Module, path: str | Path, example: Tensor, *, dynamic_batch: bool = False, tolerance: float = TOLERANCE
) -> Exported:
    """Writes a network as an exported PyTorch program; `torch.export.load(path).module()` runs it without this package.

    Arguments, errors and result are those of `export_onnx`; no extra package is needed.
    """

    def write(file: Path, names: list[str]) -> None:
        program = torch.export.export(model, (example,), dynamic_shapes=_dynamic_shapes(dynamic_batch))
        made = io.BytesIO()  # torch insists on a name that ends in .pt2, and does not survive a full disk
        torch.export.save(program, made)
        file.write_bytes(made.getbuffer())

    def load(file: Path) -> Callable[[Tensor], Sequence[Tensor]]:
        with file.open("rb") as stream:
            module = torch.export.load(stream).module()
        return lambda x: _as_sequence(module(x))

    return _export(model, Path(path), example, dynamic_batch, tolerance, write, load)


def check_onnx_installed() -> None:
    """Raises ExportError, naming the extra, unless all that ONNX needs is there."""
    for package in ("onnx", "onnxruntime", "onnxscript"):
        try:
            __import__(package)
        except ImportError as error:
            raise ExportError(f'ONNX needs the package {package}: pip install "robustvit[export]"') from error


def _export(
    model: nn.Module,
    path: Path,
    example: Tensor,
    dynamic_batch: bool,
    tolerance: float,
    write: Callable[[Path, list[str]], None],
    load: Callable[[Path], Callable[[Tensor], Sequence[Tensor]]],
) -> Exported:
    if model.training:
        raise ValueError("the network is in training mode; export model.eval() or robustvit.fuse(model)")
    if dynamic_batch and example.shape[0] < 2:
        raise ValueError("dynamic_batch needs an example of at least 2 images: sizes 0 and 1 are treated as constants")
    if reason := getattr(model, "why_not_exported", ""):
        raise ExportError(f"{type(model).__name__} cannot be exported: {reason}")
    check_writable(path)
    examples = [example, torch.cat((example, example[:1]))] if dynamic_batch else [example]
    with torch.no_grad():
        expected = [_as_sequence(model(x)) for x in examples]
    names = _OUTPUT_NAMES.get(len(expected[0])) or [f"output_{i}" for i in range(len(expected[0]))]
    with write_whole(path) as file:
        with torch.no_grad(), _quiet():
            try:
                write(file, names)
            except OSError:  # a full disk is not the network's fault
                raise
            except Exception as error:  # the exporters raise whatever their passes raise
                raise ExportError(f"{type(model).__name__} cannot be exported: {_first_line(error)}") from error
        with torch.no_grad():
            run = load(file)
            difference = max(_difference(y, run(x)) for x, y in zip(examples, expected, strict=True))
        if difference > tolerance:
            raise ExportError(f"the file differs from the network by {difference:.1e}, more than {tolerance:.0e}; not written")
        size = file.stat().st_size
    batch: int | str = "batch" if dynamic_batch else example.shape[0]
    outputs = {name: (batch, *y.shape[1:]) for name, y in zip(names, expected[0], strict=True)}
    return Exported(path, size, (batch, *example.shape[1:]), outputs, difference)


_OUTPUT_NAMES = {1: ["logits"], 2: ["logits", "token_logits"]}


def _dynamic_shapes(dynamic_batch: bool) -> Any:
    return ({0: torch.export.Dim("batch")},) if dynamic_batch else None


def _as_sequence(outputs: Any) -> Sequence[Tensor]:
    return outputs if isinstance(outputs, tuple | list) else (outputs,)


def _difference(expected: Sequence[Tensor], got: Sequence[Tensor]) -> float:
    """Largest absolute difference; infinite where a value is not a number."""
    differences = [(a.cpu() - b.cpu()).abs().max() for a, b in zip(expected, got, strict=True)]
    return float(torch.stack(differences).nan_to_num(nan=float("inf")).max())


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the exporters' remarks about their own internals off the terminal."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(nothing):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
