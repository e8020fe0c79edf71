"""Weights of whole dense networks, head included: those that come with the package, and those that the authors published."""

from __future__ import annotations

from pathlib import Path

from timm.models._hub import download_cached_file

from robustvit.models.dense_names import DenseName
from robustvit.models.fetching import short_timeout
from robustvit.models.published import PUBLISHED, PublishedWeights
from robustvit.models.shipped import SHIPPED_FOLDERS, SHIPPED_TAG

__all__ = ["fetched", "whole_weights"]


def whole_weights(name: DenseName) -> Path | PublishedWeights | None:
    """A folder of the package, or a published file; None where a name without a tag has weights for its backbone at most.

    Raises:
        ValueError: there are no weights with this tag.
    """
    folder = SHIPPED_FOLDERS.get(str(name))
    if folder is not None and name.tag in ("", SHIPPED_TAG):
        return folder
    published = {weights.tag: weights for weights in PUBLISHED if weights.architecture == str(name)}
    if name.tag and name.tag not in published:
        known = ", ".join([SHIPPED_TAG] * (folder is not None) + [*published])
        hint = f"it has {known}" if known else f"those of the backbone alone are {name.backbone}.{name.tag}/{name.head}"
        raise ValueError(f"{name} has no weights {name.tag!r}; {hint}")
    return published.get(name.tag)


def fetched(weights: PublishedWeights) -> Path:
    """The file, from its address or the cache.

    Raises:
        RuntimeError: it cannot be fetched.
    """
    if not weights.url:
        raise RuntimeError(weights.how_to_get())
    try:
        with short_timeout():
            return Path(download_cached_file(weights.url))
    except OSError as error:
        raise RuntimeError(f"{weights.url} cannot be fetched ({error}); {weights.how_to_load()}") from error
