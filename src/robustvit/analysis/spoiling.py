"""Studies that compare clean images with corrupted ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from robustvit.analysis.shared_options import Spoiling
from robustvit.analysis.study import Study

if TYPE_CHECKING:
    from torch import Tensor

    from robustvit.analysis.subject import Batch, Subject

__all__ = ["SpoilingStudy", "spoiled", "spoiled_pairs"]

SpoilingOptions = TypeVar("SpoilingOptions", bound=Spoiling)


class SpoilingStudy(Study[SpoilingOptions]):
    """A study of what a corruption changes; `spoiled` corrupts a batch as its options say."""

    is_spoiled: ClassVar[bool] = True

    def covers_patches(self, options: SpoilingOptions) -> bool:
        return options.covers_patches

    def check(self, subject: Subject, options: SpoilingOptions) -> None:
        """Corruptions need images of some size."""
        from robustvit.corruptions.parameters import SMALLEST

        H, W = subject.protocol.size
        if min(H, W) < SMALLEST and not options.covers_patches:
            raise ValueError(
                f"corruptions need images of at least {SMALLEST}x{SMALLEST} pixels, and {subject.name} takes {H}x{W}; give "
                "--corruption patches, or a larger --img-size"
            )

    def passes(self, images: int, options: SpoilingOptions) -> int:
        return 2 * images


def spoiled(subject: Subject, batch: Batch, options: Spoiling) -> Tensor:
    """uint8 [B, 3, H, W]: the images under the corruption of the options."""
    from robustvit.corruptions.conditions import Condition, apply_condition
    from robustvit.corruptions.patches import occlude_patches
    from robustvit.data.normalisation import Normalisation

    if options.covers_patches:
        own = Normalisation.of(subject.network)
        how: dict[str, Any] = dict(share=options.rho, patch=subject.patch_side, seed=options.seed, sample_ids=batch.ids)
        return occlude_patches(batch.pixels, mean=own.mean, std=own.std, **how)  # type: ignore[arg-type]
    return apply_condition(batch.pixels, batch.ids, Condition(options.corruption, options.severity), seed=options.seed)


def spoiled_pairs(subject: Subject, options: Spoiling) -> Iterator[tuple[Tensor, Tensor]]:
    """(clean, spoiled) batches of all images, normalised."""
    for batch in subject.batches():
        yield subject.normalised(batch.pixels), subject.normalised(spoiled(subject, batch, options))
