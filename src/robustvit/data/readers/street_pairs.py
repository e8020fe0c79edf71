"""Images of streets with label maps as Cityscapes and ACDC name them: NAME_leftImg8bit.png and NAME_gtFine_labelTrainIds.png.

Train ids are made by Cityscapes' own scripts; where an image has none, its label ids (`..._labelIds.png`) are mapped.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from robustvit.data.label_maps import LabelLookup
from robustvit.data.map_samples import MapFile
from robustvit.data.readers.cityscapes_classes import CITYSCAPES, CITYSCAPES_LABEL_IDS
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.paired_files import by_key, check_pairs, ordered

__all__ = ["LabelFile", "StreetNames"]


class LabelFile(NamedTuple):
    """A label map, and what its values stand for."""

    path: Path
    lookup: LabelLookup


@dataclass(frozen=True)
class StreetNames:
    """How a dataset names its files.

    Attributes:
        image: follows NAME in the names of images.
        label: follows NAME in the names of label maps, before "_labelTrainIds" and "_labelIds".
    """

    image: str
    label: str

    def expected(self, labels: Path, images: Path) -> str:
        """What files there should be, for messages."""
        return (
            f"{labels}/.../NAME{self.label}_labelTrainIds.png or NAME{self.label}_labelIds.png for each "
            f"{images}/.../NAME{self.image}.png"
        )

    def images(self, folder: Path) -> dict[str, Path]:
        """FOLDER/NAME -> image, relative to `folder`.

        Raises:
            LayoutError: there are none.
        """
        files = by_key(folder)
        found = {key.removesuffix(self.image): path for key, path in files.items() if key.endswith(self.image)}
        if not found:
            only = f", only such as {min(files.values())}" if files else ""
            raise LayoutError(f"{folder} has no images called NAME{self.image}.png, in it or below{only}")
        return found

    def labels(self, folder: Path) -> dict[str, LabelFile]:
        """FOLDER/NAME -> label map below `folder`: of train ids if there is one, else of label ids."""
        files = by_key(folder, labels=True)
        found: dict[str, LabelFile] = {}
        for kind, lookup in (("labelIds", CITYSCAPES_LABEL_IDS), ("labelTrainIds", CITYSCAPES.lookup)):
            ending = f"{self.label}_{kind}"
            for key, path in files.items():
                if key.endswith(ending):
                    found[key.removesuffix(ending)] = LabelFile(folder / path, lookup)
        return found

    def pairs(self, images: Path, labels: Path | None, prefix: str = "") -> list[MapFile]:
        """The images of a folder with their label maps, if there are any; ids are paths below it, after a prefix.

        Raises:
            LayoutError: there are no images, or they do not fit the label maps.
        """
        found = self.images(images)
        if labels is None:
            return [MapFile(f"{prefix}{found[key].as_posix()}", images / found[key]) for key in ordered(found)]
        known = self.labels(labels)
        check_pairs(images, found, {key: label.path for key, label in known.items()}, self.expected(labels, images))
        return [MapFile(f"{prefix}{found[key].as_posix()}", images / found[key], *known[key]) for key in ordered(found)]
