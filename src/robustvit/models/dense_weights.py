"""Weights of whole dense networks, head included: those that come with the package, and those that the authors published."""

from __future__ import annotations

from pathlib import Path

from timm.models._hub import download_cached_file

from robustvit.models.dense_names import DenseName
from robustvit.models.fetching import short_timeout
from robustvit.models.published import PUBLISHED, PublishedWeights
from robustvit.models.shipped import SHIPPED_FOLDERS, SHIPPED_TAG

__all__ = ["fetched", "tags_of", "whole_weights"]


def whole_weights(name: DenseName) -> Path | PublishedWeights | None:
    """A folder of the package, or a published file; None where a name without a tag has weights for its backbone at most.

    Raises:
        ValueError: there are no weights with this tag.
    """
    folder = SHIPPED_FOLDERS.get(str(name))
    if folder is not None and name.tag in ("", SHIPPED_TAG):
        return folder
    if not name.tag:
        return next((weights for weights in PUBLISHED if weights.published_name == str(name)), None)
    if name.tag not in (tags := tags_of(name)):
        known = f"it has {', '.join(tags)}" if tags else f"those of the backbone are {name.backbone}.{name.tag}/{name.head}"
        raise ValueError(f"{name} has no weights {name.tag!r}; {known}")
    return next(weights for weights in PUBLISHED if _is_of(weights, name) and weights.tag == name.tag)


def tags_of(name: DenseName) -> list[str]:
    """Tags of the weights of the whole network."""
    return [SHIPPED_TAG] * (str(name) in SHIPPED_FOLDERS) + [weights.tag for weights in PUBLISHED if _is_of(weights, name)]


def _is_of(weights: PublishedWeights, name: DenseName) -> bool:
    return str(name) in (weights.architecture, weights.published_name)


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
