"""What ADL, TAP and STL do inside small networks, whatever they do to accuracy: 3 seeds, with controls.

    python benchmarks/attention_mechanism.py FOLDER --seeds 0 1 2

FOLDER, the training and its records are as for `method_gains.py`, and with the same --output and --updates its networks are
not trained again. On images of the test set, clean and corrupted at severity 3:

row cosine: ADL's own quantity (Eq. 2): 1 where all queries attend to the same tokens, and 0 where none of them looks anywhere.
entropy, max x N: how attention is spread (`methods/attention_spread.py`).
centred stability: cosine between attention on the clean and on the corrupted image, without the means of the rows.
cost: points of accuracy lost when image tokens attend evenly.

To judge the token labels of STL one must know what is where, so labelers are trained on generated scenes: the share of tokens
whose label is the class of the image, and their confidence, on its object and on the ground.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import method_gains
import robustvit as rv
from attention_gate import looked_at, test_images
from method_gains import LABELER, VIT, Variant, file_name, trained, write_record
from robustvit.analysis.attention_stability import attention_stability
from robustvit.analysis.token_labels import token_labels
from robustvit.data.normalisation import Normalisation
from robustvit.data.scenes.dataset import Hints, Scenes
from robustvit.methods import attention_diversification
from robustvit.recording.tape import record

VARIANTS = {
    **{name: method_gains.VARIANTS[name] for name in ("ViT", "ViT + ADL", "ViT + TAP")},
    "ViT + ADL from the start": Variant((VIT, "methods.adl={}"), length=2),
    "ViT + 3x3 average": Variant((VIT, "model.tap=avg3x3"), length=2),
}
"""Of the network whose attention matters (`attention_gate.py`)."""
CORRUPTIONS = ("gaussian_noise", "gaussian_blur")
ATTENTION = {
    "row_cosine": "row cosine",
    "entropy": "entropy",
    "max_times_tokens": "max x N",
    **{f"centred_{name}": f"centred stability, {name.replace('_', ' ')}" for name in CORRUPTIONS},
    "cost": "cost (points)",
}
TOKENS = {
    "object_label": "object: label of the image (%)",
    "ground_label": "ground: label of the image (%)",
    "object_confidence": "object: confidence",
    "ground_confidence": "ground: confidence",
}
SCENES = Variant((*LABELER.changes, "data.train=scenes-easy:20000"))
Numbers = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with train.tar and test.tar, or train/ and test/")
    parser.add_argument("--output", type=Path, default=Path("runs/gains"), help="trained networks")
    parser.add_argument("--records", type=Path, default=Path("benchmarks/records/attention_mechanism"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=1_200, help="of a training; a multiple of 2")
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"], help="of the trainings; measured in fp32")
    parser.add_argument("--test-images", type=int, default=500)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: as many as it likes")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    found = {name: [attention(name, seed, options) for seed in options.seeds] for name in VARIANTS}
    labelers = {"FAN with a token head, on scenes": [tokens(seed, options) for seed in options.seeds]}
    for title, rows, columns in (("network", found, ATTENTION), ("labeler", labelers, TOKENS)):
        print("\n".join(table(title, rows, columns)) + "\n")


def attention(name: str, seed: int, options: argparse.Namespace) -> Numbers:
    """Trains a variant and looks at its attention."""

    def measure() -> Numbers:
        network = network_of(file_name(name), VARIANTS[name], seed, options)
        pixels, labels = test_images(options)
        return looked_at_pairs(network, pixels, labels)

    return recorded(options.records / f"{file_name(name)}-{seed}.json", measure)


def tokens(seed: int, options: argparse.Namespace) -> Numbers:
    """Trains a labeler on scenes and looks at its tokens."""

    def measure() -> Numbers:
        network = network_of("labeler_scenes", SCENES, seed, options)
        return labels_by_place(network, Scenes("test", options.test_images, 32, hints=Hints(0.9, 0.9)))

    return recorded(options.records / f"labeler_scenes-{seed}.json", measure)


def recorded(path: Path, measure: Callable[[], Numbers]) -> Numbers:
    """What an earlier call has measured, or what this one does."""
    if not path.exists():
        write_record(path, {name: round(value, 5) for name, value in measure().items()})
    found: Numbers = json.loads(path.read_text())
    return found


def network_of(name: str, variant: Variant, seed: int, options: argparse.Namespace) -> nn.Module:
    folder = options.output / f"{name}-{seed}"
    trained(folder, variant, variant.changes, seed, options)
    return rv.create_model(f"local-dir:{folder / 'weights'}", pretrained=True).eval()


@torch.no_grad()
def looked_at_pairs(network: nn.Module, pixels: Tensor, labels: Tensor) -> Numbers:
    """The numbers of `ATTENTION`.

    Args:
        network: a classifier.
        pixels: uint8 [M, 3, H, W].
        labels: int64 [M].
    """
    normalised = Normalisation.of(network)
    images = normalised(pixels)
    found = looked_at(network, images, labels)
    found["cost"] = 100 * (found["accuracy"] - found["even"])
    with record(network) as tape:
        network(images[:200])
    found["row_cosine"] = float(
        attention_diversification(tape.attention, prefix_tokens=tape.prefix_tokens, regions=tape.regions)
    )
    for name in CORRUPTIONS:
        spoiled = normalised(rv.corrupt(pixels, name, severity=3, seed=0))
        found[f"centred_{name}"] = attention_stability(
            network, zip(images.split(100), spoiled.split(100), strict=True)
        ).centred
    return found


@torch.no_grad()
def labels_by_place(network: Any, scenes: Scenes) -> Numbers:
    """The numbers of `TOKENS`: a token is of the object if most of its pixels are of the class of the image, and of the ground
    if none of them is of any object."""
    batch = scenes.batch(range(len(scenes)))
    labels = torch.tensor([scene.label for scene in batch])
    semantic = torch.stack([scene.semantic for scene in batch]).long()  # 0 is the ground, 1 + class
    told = token_labels(network, Normalisation.of(network)(batch.images), labels)
    stride = semantic.shape[-1] // told.labels.shape[-1]
    shares = F.avg_pool2d((semantic == 1 + labels[:, None, None]).float(), stride)  # B Hp Wp
    is_object = shares > 0.5
    is_ground = F.avg_pool2d((semantic > 0).float(), stride) == 0
    found = {}
    for name, place in (("object", is_object), ("ground", is_ground)):
        found[f"{name}_label"] = 100 * float(told.foreground[place].float().mean())
        found[f"{name}_confidence"] = float(told.confidences[place].mean())
    return found


def table(title: str, found: Mapping[str, Sequence[Numbers]], columns: Mapping[str, str]) -> Iterator[str]:
    """Mean and standard deviation over the seeds."""
    yield f"| {title} | {' | '.join(columns.values())} | seeds |"
    yield "|---|" + "---:|" * (len(columns) + 1)
    for name, runs in found.items():
        cells = (spread([run[key] for run in runs]) for key in columns)
        yield f"| {name} | {' | '.join(cells)} | {len(runs)} |"


def spread(values: Sequence[float]) -> str:
    return f"{mean(values):.3g}" + (f" ± {stdev(values):.2g}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
