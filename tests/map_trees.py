"""Small datasets with label maps, in the layouts of real ones, made of scenes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.scenes.dataset import SEMANTIC_NAMES, scenes_batch
from robustvit.data.scenes.maps import SceneMaps

__all__ = [
    "Pair",
    "save",
    "street_pairs",
    "write_acdc",
    "write_camvid",
    "write_cityscapes",
    "write_cityscapes_c",
    "write_endings",
    "write_plain",
]

Pair = tuple[np.ndarray, np.ndarray]
"""Image uint8 [H, W, 3] and label map uint8 [H, W]."""
CONDITIONS = ("fog", "night", "rain", "snow")
COUNTS = {"train": 3, "val": 2, "test": 1}
"""Images per split."""


def street_pairs(count: int, seed: int = 0, size: tuple[int, int] = (32, 48)) -> list[Pair]:
    """Scenes whose background and ten classes stand for the first eleven train ids; the first row is ignored (255)."""
    batch = scenes_batch(seed, range(count), size)
    maps = batch.semantic.numpy().copy()
    maps[:, 0] = 255
    return list(zip(batch.images.permute(0, 2, 3, 1).numpy(), maps, strict=True))


def save(path: Path, pixels: np.ndarray) -> Path:
    """An array as an image file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.ascontiguousarray(pixels)).save(path)
    return path


def to_label_ids(label_map: np.ndarray) -> np.ndarray:
    assert CITYSCAPES.label_ids is not None
    table = np.zeros(256, np.uint8)  # 0: unlabelled
    table[: len(CITYSCAPES.label_ids)] = CITYSCAPES.label_ids
    return table[label_map]


def _save_labels(stem: Path, label_map: np.ndarray, kinds: Sequence[str]) -> None:
    made: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "labelTrainIds": lambda m: m,
        "labelIds": to_label_ids,
        "color": lambda m: np.array((*CITYSCAPES.palette, *[(0, 0, 0)] * 237), np.uint8)[m],
    }
    for kind in kinds:
        save(stem.with_name(f"{stem.name}_{kind}.png"), made[kind](label_map))


def write_cityscapes(
    root: Path,
    counts: dict[str, int] | None = None,
    *,
    kinds: Sequence[str] = ("labelTrainIds", "labelIds", "color"),
    size: tuple[int, int] = (32, 48),
) -> Path:
    """leftImg8bit/SPLIT/CITY and gtFine/SPLIT/CITY; the label maps of test hold nothing, as published."""
    for s, (split, count) in enumerate((counts or COUNTS).items()):
        for i, (image, label_map) in enumerate(street_pairs(count, s, size)):
            name = f"{split}/bonn/bonn_{i:06}_000019"
            save(root / "leftImg8bit" / f"{name}_leftImg8bit.png", image)
            _save_labels(root / "gtFine" / f"{name}_gtFine", label_map if split != "test" else label_map * 0 + 255, kinds)
    return root


def write_cityscapes_c(root: Path, cells: Sequence[tuple[str, int]], *, habit: str = "fan") -> Path:
    """Copies of the validation images of `write_cityscapes` in FAN's or TAP's folders; their pixels are (severity, 0, 0)."""
    clean = root / "leftImg8bit" / "val"
    for name, severity in cells:
        folder = root / "leftImg8bit" / name / str(severity) / "val" if habit == "fan" else root / name / str(severity)
        for path in sorted(clean.rglob("*.png")):
            pixels = np.zeros_like(np.asarray(Image.open(path)))
            pixels[..., 0] = severity
            save(folder / path.relative_to(clean), pixels)
    return root


def write_acdc(root: Path, *, archives: bool = False, count: int = 2, kinds: Sequence[str] = ("labelTrainIds",)) -> Path:
    """rgb_anon and gt of four conditions, with the folders of the archives around them if asked for."""
    images = root / ("rgb_anon_trainvaltest/rgb_anon" if archives else "rgb_anon")
    labels = root / ("gt_trainval/gt" if archives else "gt")
    for c, condition in enumerate(CONDITIONS):
        for s, split in enumerate(("train", "val", "test")):
            for i, (image, label_map) in enumerate(street_pairs(count, 10 * c + s)):
                name = f"{condition}/{split}/GOPR0{c}/GOPR0{c}_frame_{i:06}"
                save(images / f"{name}_rgb_anon.png", image)
                if split != "test":
                    _save_labels(labels / f"{name}_gt", label_map, kinds)
    return root


def write_plain(
    root: Path,
    counts: dict[str, int] | None = None,
    *,
    folders: tuple[str, str] = ("images", "labels"),
    classes: object = None,
    ending: str = "",
) -> Path:
    """images/SPLIT/N.jpg and labels/SPLIT/N.png; the split "" leaves its folder out. `classes` goes to classes.json."""
    for s, (split, count) in enumerate((counts or COUNTS).items()):
        for i, (image, label_map) in enumerate(street_pairs(count, s)):
            save(root / folders[0] / split / f"{split}{i}.jpg", image)
            save(root / folders[1] / split / f"{split}{i}{ending}.png", label_map)
    if classes is not None:
        (root / "classes.json").write_text(json.dumps(classes))
    return root


def write_endings(images: Path, labels: Path, image: str, label: str, factor: int = 1) -> None:
    """a/N and an ending of images; a/N and an ending of label maps, whose classes are multiplied (16 bits if need be)."""
    for i, (pixels, label_map) in enumerate(street_pairs(3)):
        values = np.where(label_map == 255, 255, label_map.astype(np.int64) * factor)
        save(images / f"a/{i}{image}.png", pixels)
        save(labels / f"a/{i}{label}.png", values.astype(np.uint16 if values.max() > 255 else np.uint8))


def write_camvid(root: Path, *, colours: bool = False) -> Path:
    """As CamVid is handed on: names, palette and ignore in classes.json; label maps of indices, or of colours."""
    palette = [list(colour) for colour in SceneMaps.palette]
    ignore: object = [255, [0, 0, 0]] if colours else 255
    write_plain(root, {"train": 2, "val": 2}, classes={"names": SEMANTIC_NAMES, "palette": palette, "ignore": ignore})
    if colours:
        table = np.zeros((256, 3), np.uint8)
        table[: len(palette)] = palette
        for path in (root / "labels").rglob("*.png"):
            save(path, table[np.asarray(Image.open(path))])
    return root
