"""Small datasets with labelled objects, in the layouts of real ones, made of scenes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from map_trees import save

from robustvit.data.scenes.dataset import CLASS_NAMES, Scenes
from robustvit.data.scenes.objects import SceneObjects
from robustvit.metrics.box_matching import Labelled

__all__ = [
    "CATEGORY_IDS",
    "SIZE",
    "coco_dict",
    "scene_objects",
    "write_coco",
    "write_coco_c",
    "write_voc",
    "write_yolo",
]

SIZE = (48, 64)
"""(height, width) of all images."""
CATEGORY_IDS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 90)
"""Of the classes of scenes, with gaps as COCO has them."""
Objects = tuple[np.ndarray, Labelled]


def scene_objects(count: int, seed: int = 0) -> list[Objects]:
    """Images uint8 [H, W, 3] and their objects."""
    return SceneObjects(Scenes("test", count, SIZE, seed=seed), "scenes").read_many(range(count))


def coco_dict(scenes: Sequence[Objects], *, name: str = "{}.jpg", masks: bool = True) -> dict[str, Any]:
    """The contents of an annotation file; image k has the id 100 + k."""
    images, annotations = [], []
    for k, (_, objects) in enumerate(scenes):
        images.append({"id": 100 + k, "file_name": name.format(k), "width": SIZE[1], "height": SIZE[0]})
        outlines = objects.masks.to_coco() if objects.masks is not None else []
        for i, (x1, y1, x2, y2) in enumerate(objects.boxes.tolist()):
            annotations.append(
                {
                    "id": 1 + len(annotations),
                    "image_id": 100 + k,
                    "category_id": CATEGORY_IDS[objects.classes[i]],
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "area": float(objects.areas[i]),
                    "iscrowd": int(objects.is_crowd[i]),
                    **({"segmentation": outlines[i]} if masks else {}),
                }
            )
    categories = [{"id": key, "name": label} for key, label in zip(CATEGORY_IDS, CLASS_NAMES, strict=True)]
    return {"images": images, "annotations": annotations, "categories": categories[::-1]}


def write_coco(
    root: Path,
    counts: dict[str, int] | None = None,
    *,
    images: str = "{}2017",
    annotations: str = "annotations/instances_{}2017.json",
    masks: bool = True,
) -> Path:
    """Images and annotation files; in both patterns {} is the split."""
    for s, (split, count) in enumerate((counts or {"train": 3, "val": 2}).items()):
        scenes = scene_objects(count, s)
        for k, (image, _) in enumerate(scenes):
            save(root / images.format(split) / f"{k}.jpg", image)
        write_json(root / annotations.format(split), coco_dict(scenes, masks=masks))
    return root


def write_json(path: Path, contents: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(contents))
    return path


def write_coco_c(
    root: Path, cells: Sequence[tuple[str, int]], *, form: str = "{}_{}", clean: bool = True, count: int = 2
) -> Path:
    """Copies whose pixels are (severity, 0, 0), the clean images and one annotation file."""
    write_coco(root, {"val": count}, images="clean")
    for name, severity in cells:
        pixels = np.zeros((*SIZE, 3), np.uint8)
        pixels[..., 0] = severity
        for k in range(count):
            save(root / form.format(name, severity) / f"{k}.jpg", pixels)
    if not clean:
        for file in (root / "clean").iterdir():
            file.unlink()
        (root / "clean").rmdir()
    return root


def voc_xml(objects: Sequence[tuple[str, Sequence[float], int]], size: tuple[int, int] = SIZE) -> str:
    """An XML file of (name, first and last pixel counted from 1, difficult)."""
    parts = [
        f"<object><name>{name}</name><difficult>{difficult}</difficult><part><name>head</name><bndbox><xmin>1</xmin></bndbox>"
        f"</part><bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>"
        for name, (x1, y1, x2, y2), difficult in objects
    ]
    sides = f"<size><width>{size[1]}</width><height>{size[0]}</height><depth>3</depth></size>"
    return f"<annotation><folder>VOC</folder>{sides}{''.join(parts)}</annotation>"


def write_voc(root: Path, counts: dict[str, int] | None = None, names: Sequence[str] = CLASS_NAMES) -> Path:
    """JPEGImages, Annotations and ImageSets/Main; the second object of every image is difficult."""
    for s, (split, count) in enumerate((counts or {"train": 3, "val": 2}).items()):
        for k, (image, objects) in enumerate(scene_objects(count, s)):
            save(root / "JPEGImages" / f"{split}_{k}.jpg", image)
            boxes = [
                (names[c], (x1 + 1, y1 + 1, x2, y2), int(i == 1)) for i, (c, (x1, y1, x2, y2)) in enumerate(_pairs(objects))
            ]
            xml = root / "Annotations" / f"{split}_{k}.xml"
            xml.parent.mkdir(parents=True, exist_ok=True)
            xml.write_text(voc_xml(boxes))
        listed = root / "ImageSets" / "Main" / f"{split}.txt"
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text("".join(f"{split}_{k}\n" for k in range(count)))
    return root


def _pairs(objects: Labelled) -> list[tuple[int, list[float]]]:
    return list(zip(objects.classes.tolist(), objects.boxes.tolist(), strict=True))


def write_yolo(
    root: Path,
    counts: dict[str, int] | None = None,
    *,
    images: str = "images/{}",
    labels: str = "labels/{}",
) -> Path:
    """Images and text files; in both patterns {} is the split."""
    h, w = SIZE
    for s, (split, count) in enumerate((counts or {"train": 3, "val": 2}).items()):
        for k, (image, objects) in enumerate(scene_objects(count, s)):
            save(root / images.format(split) / f"{k}.jpg", image)
            lines = [
                f"{c} {(x1 + x2) / 2 / w} {(y1 + y2) / 2 / h} {(x2 - x1) / w} {(y2 - y1) / h}\n"
                for c, (x1, y1, x2, y2) in _pairs(objects)
            ]
            text = root / labels.format(split) / f"{k}.txt"
            text.parent.mkdir(parents=True, exist_ok=True)
            text.write_text("".join(lines))
    return root
