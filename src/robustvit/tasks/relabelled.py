"""A dataset of classes whose labels are those of another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from robustvit.data.sample_digest import add_samples
from robustvit.data.samples import Sample, SampleSet
from robustvit.runtime.fingerprint import Digest

__all__ = ["Relabelled"]


class Relabelled:
    """Samples whose label i becomes `labels[i]`; `at` is there if the set has it.

    Args:
        samples: the set.
        labels: of its classes, as positions in `classes`.
        classes: names of all classes.
    """

    at: Callable[[int], Sample]

    def __init__(self, samples: SampleSet, labels: Sequence[int], classes: Sequence[str]) -> None:
        self.samples, self.labels = samples, tuple(labels)
        self.name, self.classes = samples.name, tuple(classes)
        if (at := getattr(samples, "at", None)) is not None:
            self.at = lambda i: self._relabelled(at(i))

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        yield from map(self._relabelled, self.samples)

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """What the samples depend on."""
        add_samples(digest, self.samples, positions)

    def _relabelled(self, sample: Sample) -> Sample:
        return Sample(sample.id, sample.open, partial(self._target, sample))

    def _target(self, sample: Sample) -> int:
        return self.labels[sample.target()]
