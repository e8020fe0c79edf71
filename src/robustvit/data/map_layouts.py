"""The datasets with label maps that people have on disk, found by their layout.

Cityscapes, ACDC, plain folders and pairs of files have a reader each in `readers`; `scenes` is the embedded dataset.
docs/segmentation-data.md shows the layouts.
"""

from __future__ import annotations

from pathlib import Path

from robustvit.data.label_classes import NO_CLASSES
from robustvit.data.layouts import SCENES, Split, embedded_scenes
from robustvit.data.map_samples import MapFile, MapFiles, MapSamples
from robustvit.data.readers.acdc import CONDITIONS, acdc_conditions, acdc_maps, acdc_split
from robustvit.data.readers.cityscapes import cityscapes_maps, cityscapes_split
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.corrupted_images import corrupted_folders
from robustvit.data.readers.corrupted_maps import corrupted_maps
from robustvit.data.readers.map_folders import folder_maps, folder_split
from robustvit.data.samples import IMAGE_SUFFIXES

__all__ = ["CONDITIONS", "LayoutError", "MapSamples", "acdc_conditions", "corrupted_maps", "open_maps", "open_split"]


def open_maps(
    source: str | Path,
    *,
    scene_size: tuple[int, int] = (224, 224),
    split: Split = "test",
    ignore_orientation: bool = False,
) -> MapSamples:
    """The images at `source` with their label maps, checked: each has one, of its own size.

    What is in the label maps is looked into when it is known which of them are used: `data.samples.check_values`.

    Args:
        source: a folder of Cityscapes or ACDC, or one of the splits in it; a folder with images/ and labels/ (with or without
            splits in them), img_dir/ and ann_dir/, or pairs NAME.jpg and NAME_mask.png; a folder of images, or an image,
            without label maps; or "scenes" ("scenes:500" for 500 images) for the embedded dataset, "scenes-easy" for its easy
            form.
        scene_size: (H, W) of the images of the embedded dataset.
        split: which part of it. "val" and "test" are the same but for `scenes`, where they share no image: the validation
            images, since the label maps of test images are rarely public.
        ignore_orientation: take pixels as they are stored, without regard to the EXIF tag of cameras.

    Raises:
        FileNotFoundError: there is nothing.
        LayoutError: images without label maps, label maps without images or of another size, ...; unknown values of a set to
            train on.
        UnmatchedMapsError: files that are called like label maps, and belong to no image.
    """
    text = str(source)
    if text.partition(":")[0] in SCENES:
        from robustvit.data.scenes.maps import SceneMaps

        return SceneMaps(*embedded_scenes(text, scene_size, split))
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}; give a folder of images and label maps, or 'scenes'")
    if path.is_file():
        return _one_image(path, ignore_orientation)
    samples = (
        cityscapes_maps(path, split, ignore_orientation=ignore_orientation)
        or acdc_maps(path, split, ignore_orientation=ignore_orientation)
        or _plain(path, split, ignore_orientation)
    )
    samples.check_sizes()
    if split == "train":
        samples.check_values()  # training takes them all; whoever measures chooses first, and checks what it has chosen
    return samples


def open_split(path: Path, split: str, *, ignore_orientation: bool = False) -> MapFiles:
    """The images of the split of just this name: `open_maps` takes what can be measured, this what is asked for.

    Args:
        path: a folder of Cityscapes, of ACDC, or another with splits.
        split: as its folder is called: "test", "train_extra", "val_ref", ...
        ignore_orientation: see `open_maps`.

    Raises:
        LayoutError: there is no such split; the message names those that are there. Or see `open_maps`.
    """
    samples = (
        cityscapes_split(path, split, ignore_orientation=ignore_orientation)
        or acdc_split(path, split, ignore_orientation=ignore_orientation)
        or folder_split(path, split, ignore_orientation=ignore_orientation)
    )
    samples.check_sizes()
    return samples


def _one_image(path: Path, ignore_orientation: bool) -> MapFiles:
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        raise LayoutError(f"{path} is no image; give an image, a folder of images and label maps, or 'scenes'")
    return MapFiles([MapFile(path.name, path)], str(path), NO_CLASSES, ignore_orientation=ignore_orientation)


def _plain(path: Path, split: Split, ignore_orientation: bool) -> MapFiles:
    if corrupted_folders(path):
        raise LayoutError(
            f"{path} has corrupted copies of images; give the folder of the clean images, and choose the suite cityscapes-c "
            "for the copies"
        )
    return folder_maps(path, split, ignore_orientation=ignore_orientation)
