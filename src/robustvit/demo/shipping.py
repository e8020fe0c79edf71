"""Puts the networks of a finished demonstration into the package.

python -m robustvit.demo.shipping runs/demo
"""

from __future__ import annotations

import sys
from pathlib import Path

from safetensors.torch import save_file

from robustvit.files import write_whole
from robustvit.models.shipped import SHIPPED, shipped_file
from robustvit.weights import read_weights

__all__ = ["ship"]


def ship(runs: Path) -> list[Path]:
    """Writes the weights of the demonstration in `runs` into the package, in half precision; returns the files."""
    files = []
    for name in SHIPPED:
        weights = read_weights(runs / name / "weights" / "model.safetensors")
        half = {key: value.half() if value.is_floating_point() else value for key, value in weights.items()}
        shipped_file(name).parent.mkdir(exist_ok=True)
        with write_whole(shipped_file(name)) as file:
            save_file({key: value.contiguous() for key, value in half.items()}, file)
        files.append(shipped_file(name))
    return files


if __name__ == "__main__":
    ship(Path(sys.argv[1]))
