"""Small datasets of class folders, good and bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def picture(number: int, size: tuple[int, int] = (16, 16)) -> Image.Image:
    """Noise of its own for each number."""
    return Image.fromarray(np.random.RandomState(number).randint(0, 256, (*size, 3), np.uint8))


def fill(folder: Path, classes: tuple[str, ...] = ("cat", "dog"), count: int = 8, *, size: tuple[int, int] = (16, 16)) -> Path:
    """`count` images a class, called CLASS/0.png and so on."""
    for c, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            picture(100 * c + i, size).save(folder / name / f"{i}.png")
    return folder


def spoil(folder: Path) -> dict[str, str]:
    """Makes cat/2 no image and dog/3 a truncated one, in a folder made by `fill`; returns what each is."""
    (folder / "cat" / "2.png").write_text("this is no image")
    whole = (folder / "dog" / "3.png").read_bytes()
    (folder / "dog" / "3.png").write_bytes(whole[: len(whole) // 2])
    return {"cat/2.png": "no image", "dog/3.png": "truncated"}
