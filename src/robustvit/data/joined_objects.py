"""Several datasets with the same labelled classes as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from robustvit.data.object_samples import ObjectSamples
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.sample_digest import add_samples
from robustvit.data.samples import Sample
from robustvit.metrics.box_matching import Labelled
from robustvit.runtime.fingerprint import Digest

__all__ = ["JoinedObjects"]


class JoinedObjects(ObjectSamples):
    """The samples of all parts, one part after the other; the ids of their samples begin with PART/.

    Args:
        parts: name -> its samples, at least one.
        name: for the result file.

    Raises:
        LayoutError: the parts have different classes.
    """

    def __init__(self, parts: Mapping[str, ObjectSamples], name: str) -> None:
        self.parts, self.name = dict(parts), name
        first, *others = self.parts.values()
        if different := [own.name for own in others if (own.classes, own.category_ids) != (first.classes, first.category_ids)]:
            raise LayoutError(f"{different[0]} has other classes than {first.name}; give annotations with the same categories")
        self.classes, self.palette, self.category_ids = first.classes, first.palette, first.category_ids
        self.has_targets = all(own.has_targets for own in self.parts.values())
        self.has_masks = all(own.has_masks for own in self.parts.values())
        self.problems = tuple(dict.fromkeys(f"{part}: {told}" for part, own in self.parts.items() for told in own.problems))
        ids = {f"{part}/{key}": value for part, own in self.parts.items() for key, value in (own.image_ids or {}).items()}
        self.image_ids = ids or None
        self.ends = np.cumsum([len(own) for own in self.parts.values()])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def at(self, i: int) -> Sample:
        part, place = self._place(i)
        sample = self.parts[part].at(place)
        return Sample(f"{part}/{sample.id}", sample.open, lambda: self._target(sample))

    def _target(self, sample: Sample) -> Labelled:
        target = sample.target()
        return target if self.has_masks else target._replace(masks=None)

    def _place(self, i: int) -> tuple[str, int]:
        """(part, position in it) of a sample."""
        k = int(np.searchsorted(self.ends, i, "right"))
        return list(self.parts)[k], i - (int(self.ends[k - 1]) if k else 0)

    def _positions(self, positions: Sequence[int] | None) -> dict[str, list[int] | None]:
        """Part -> positions in it; None for all."""
        if positions is None:
            return dict.fromkeys(self.parts, None)
        found: dict[str, list[int] | None] = {part: [] for part in self.parts}
        for part, place in map(self._place, positions):
            own = found[part]
            assert own is not None
            own.append(place)
        return found

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        for part, own in self._positions(positions).items():
            digest.add(part)
            add_samples(digest, self.parts[part], own)

    def check_values(self, positions: Sequence[int] | None = None) -> None:
        for part, own in self._positions(positions).items():
            self.parts[part].check_values(own)
