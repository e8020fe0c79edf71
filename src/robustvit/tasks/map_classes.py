"""What the classes of a segmenter are called and look like: as the network says, as the dataset does, or as is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from robustvit.data.palettes import completed_palette
from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.scenes.maps import SceneMaps
from robustvit.tasks.class_matching import label_names_of

__all__ = ["MapClasses", "map_classes_of"]

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class MapClasses:
    """Names and colours of K classes, and the ids that a server wants; None where nobody knows them."""

    names: tuple[str, ...]
    palette: tuple[Colour, ...]
    label_ids: tuple[int, ...] | None = None


def map_classes_of(network: Any, outputs: int | None, samples: Any) -> MapClasses:
    """The classes of a segmenter, for images without label maps.

    The names are those that the network has; else, if there are as many, those of the dataset; 19 classes without names are
    taken for those of Cityscapes, as 1000 are for ImageNet's.

    Args:
        network: may say `label_names` in its `pretrained_cfg`.
        outputs: how many classes it has; None where nobody knows.
        samples: may have `classes`, `palette` and `label_ids`.

    Raises:
        ValueError: nobody knows how many classes there are.
    """
    names = label_names_of(network)
    if outputs is None and not (names or samples.classes):
        raise ValueError(
            f"nobody says which classes {type(network).__name__} has; put a classes.json with their names into the folder of "
            "the images"
        )
    count = outputs if outputs is not None else len(names or samples.classes)
    likely = [*_of_samples(samples), _CITYSCAPES]
    if len(names) == count:
        return next((table for table in (*likely, _SCENES) if table.names == names), _made(names))
    return next((table for table in likely if len(table.names) == count), _made([f"class {i}" for i in range(count)]))


_CITYSCAPES = MapClasses(CITYSCAPES.names, CITYSCAPES.palette, CITYSCAPES.label_ids)
_SCENES = MapClasses(tuple(SceneMaps.classes), tuple(SceneMaps.palette))


def _of_samples(samples: Any) -> Iterator[MapClasses]:
    if samples.classes and hasattr(samples, "palette"):
        yield MapClasses(tuple(samples.classes), tuple(samples.palette), samples.label_ids)


def _made(names: Sequence[str]) -> MapClasses:
    return MapClasses(tuple(names), completed_palette([None] * len(names)))
