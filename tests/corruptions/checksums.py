"""Prints, as JSON, checksums of what must be the same bytes on every processor: corrupted pictures, films, scenes, crops.

    python tests/corruptions/checksums.py [--pictures N] [--legacy-rng]

Run in processes of their own with other vector instructions, by test_every_processor.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator

import golden
import torch
from torch import Tensor

from robustvit.corruptions.registry import CORRUPTIONS, corrupt
from robustvit.corruptions.sequences import SEQUENCES, perturbation_sequence
from robustvit.data.scenes.dataset import scenes_batch
from robustvit.training.augment.scene_augmentation import SceneAugmentation
from robustvit.training.config import AugmentConfig

FOLDERS = ("imagenet224", "cifar32", "tiny64", "arbitrary96x160")
"""One for each family."""


def pictures(folder: str, count: int) -> Tensor:
    """A photograph; noise with flat areas; the photograph mirrored and turned: uint8 [count, 3, H, W]."""
    photograph = golden.picture(folder)
    noise = torch.randint(0, 256, photograph.shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    noise[..., ::3, :] = 255
    noise[..., : noise.shape[-1] // 4] = 77
    turned = [photograph.roll(37 * i, -1).flip(-2) for i in range(count)]
    return torch.cat([photograph, noise, photograph.flip(-1), 255 - photograph, *turned][:count])


def results(count: int, legacy_rng: bool = False) -> Iterator[tuple[str, Tensor]]:
    """(name, bytes) of everything, one after the other."""
    for folder in FOLDERS:
        images = pictures(folder, count)
        for name in CORRUPTIONS:
            for severity in range(1, 6):
                how = dict(family=golden.FAMILIES[folder], seed=3, legacy_rng=legacy_rng)
                yield f"{folder} {name} {severity}", corrupt(images, name, severity, **how)
    if count > 1:  # larger than what is worked on at a time
        large = golden.picture("imagenet224").repeat(1, 1, 2, 4)[..., :333, :817]
        for name in CORRUPTIONS:
            yield f"333x817 {name}", corrupt(large, name, 4, seed=3, legacy_rng=legacy_rng)
    for size, seed in ((32, 0), (64, 1), ((96, 160), 2)):
        batch = scenes_batch(seed, range(4 * count), size)
        for part in ("images", "labels", "semantic", "owners"):
            yield f"scenes {size} {part}", getattr(batch, part)
    crop = SceneAugmentation(AugmentConfig(crop="scene", cat_max_ratio=1, photometric=True), (64, 96), mean=(0.5, 0.4, 0.3))
    base, _ = crop.base(golden.picture("arbitrary96x160")[0].permute(1, 2, 0).numpy(), "")
    yield "crops of a scene", torch.from_numpy(crop([base] * 64, range(64), [0] * 64).images)
    frame = golden.picture("cifar32")[0]
    for kind in SEQUENCES:
        yield f"film {kind}", perturbation_sequence(frame, kind, benchmark="cifar")


def checksums(count: int, legacy_rng: bool = False) -> dict[str, str]:
    return {
        name: hashlib.blake2b(part.contiguous().numpy().tobytes(), digest_size=8).hexdigest()
        for name, part in results(count, legacy_rng)
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=1)
    parser.add_argument("--legacy-rng", action="store_true", help="the published random stream, which promises less")
    options = parser.parse_args()
    json.dump(checksums(options.pictures, options.legacy_rng), sys.stdout)
