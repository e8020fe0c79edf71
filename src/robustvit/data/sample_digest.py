"""What a digest covers of images, so that a result shows whether its images have changed since.

Files count by name, size and time, arrays and tensors in memory by their contents, generated images by what generates them.
Datasets that are none of these are read in a few places. A stream that cannot be asked has its name and length only.
Every set of images does this in a method `add_to`, and a dataset of the user's may have one too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Subset

from robustvit.runtime.fingerprint import Digest

__all__ = ["add_dataset", "add_samples"]

READ = 256
"""Items that are read of a dataset whose contents cannot be had otherwise, evenly spread; all, if there are no more."""
IN_MEMORY = ("data", "images", "tensors", "targets", "labels")
"""Where datasets hold arrays, as torchvision's and PyTorch's do."""
CHANGES = ("transform", "target_transform", "transforms")


def add_samples(digest: Digest, pictures: Any, positions: Sequence[int] | None = None) -> None:
    """Lets a digest depend on the images of a set at these positions, or on all of them."""
    digest.add(pictures.name, len(pictures), pictures.classes)
    if hasattr(pictures, "add_to"):
        pictures.add_to(digest, positions)
    elif hasattr(pictures, "at"):
        places = range(len(pictures)) if positions is None else positions
        digest.add([pictures.at(i).id for i in places])
        for i in _spread(places):
            _add_item(digest, lambda i=i: (pictures.at(i).open(), pictures.at(i).label))


def add_dataset(digest: Digest, dataset: Any, positions: Sequence[int] | None = None) -> None:
    """The same for a dataset of (image, label), as PyTorch has them."""
    key = ("dataset", id(dataset), None if positions is None else tuple(positions))
    if key in digest.known:
        digest.add_known(key)
        return
    found = Digest(digest.known)
    _add_dataset(found, dataset, positions)
    digest.add_once(key, found)


def _add_dataset(digest: Digest, dataset: Any, positions: Sequence[int] | None) -> None:
    digest.add(type(dataset).__qualname__, [getattr(dataset, name, None) for name in CHANGES])
    if hasattr(dataset, "add_to"):
        dataset.add_to(digest)
    elif isinstance(dataset, Subset):
        inner = dataset.indices if positions is None else [dataset.indices[i] for i in positions]
        digest.add(list(inner))
        add_dataset(digest, dataset.dataset, inner)
    elif (files := _files_of(dataset)) is not None:
        places = range(len(files)) if positions is None else positions
        digest.add([files[i][1] for i in places])
        digest.add_files(Path(), [files[i][0] for i in places])
    elif not _add_arrays(digest, dataset):
        places = range(len(dataset)) if positions is None else positions
        for i in places if isinstance(dataset, list | tuple) else _spread(places):
            _add_item(digest, lambda i=i: dataset[i])


def _files_of(dataset: Any) -> list[tuple[str, Any]] | None:
    """(file, label) of every item, where a dataset lists them as torchvision's folders do."""
    samples = getattr(dataset, "samples", None)
    if not isinstance(samples, list) or len(samples) != len(dataset) or not samples:
        return None
    are_pairs = all(isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str | Path) for s in samples)
    return [(str(file), label) for file, label in samples] if are_pairs and Path(samples[0][0]).is_file() else None


def _add_arrays(digest: Digest, dataset: Any) -> bool:
    """The arrays and tensors that a dataset holds; False where there are none that have a row for each item."""
    has_images = False
    for name in IN_MEMORY:
        value = getattr(dataset, name, None)
        for array in value if isinstance(value, tuple) else (value,):
            if isinstance(array, torch.Tensor | np.ndarray) and len(array.shape) and len(array) == len(dataset):
                digest.add(name)
                _add_array(digest, array)
                has_images |= array.ndim >= 3
            elif isinstance(array, list) and len(array) == len(dataset):
                digest.add(name, array)
    return has_images


def _add_array(digest: Digest, array: torch.Tensor | np.ndarray) -> None:
    if isinstance(array, torch.Tensor):
        digest.add_tensor(array)
    else:
        digest.add_array(array)


def _spread(places: Sequence[int]) -> list[int]:
    if len(places) <= READ:
        return list(places)
    return [places[i] for i in np.linspace(0, len(places) - 1, READ).astype(int)]


def _add_item(digest: Digest, read: Any) -> None:
    try:
        picture, label = read()[:2]
    except Exception as error:  # whatever it is, the evaluation meets it again, and says so
        digest.add(type(error).__name__)
        return
    digest.add(label)
    if isinstance(picture, Image.Image):
        digest.add(picture.mode)
        picture = np.asarray(picture)
    if isinstance(picture, torch.Tensor | np.ndarray):
        _add_array(digest, picture)
