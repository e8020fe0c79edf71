"""What covered patches do to trained networks: how far features move, and how often the answer stays. AFAT's mechanism.

    python benchmarks/patch_mechanism.py base=RUN/weights afat=RUN/weights --data test.tar --fit-data train.tar
    python benchmarks/patch_mechanism.py vit_nano fan_vit_nano --records runs/patches

A network is a name of `create_model` or a folder with weights, `LABEL=` before it if the table is to call it otherwise;
networks with the same label are seeds of one row: mean and standard deviation. Patches are random, or chosen by a corruption
network that is fitted to this very network (`fit_scorer`), on images of its own. Both have the same noise.

Feature change: mean over blocks of `mean (F(x^) - F(x))^2 / (2 var F(x))`, image tokens, the variance over places and images.
0 where nothing moves, 1 where features are as far apart as those of two places that have nothing to do with each other: unlike
L_align, it does not fall when a network makes all of its features smaller.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev

import torch
from torch import Tensor, nn

import robustvit as rv
from method_gains import write_record
from robustvit.analysis.shared_options import Options
from robustvit.analysis.subject import Subject, make_subject
from robustvit.attacks.chosen_patches import cover_adversarial, fit_scorer
from robustvit.attacks.patches import PatchSettings, cover_random
from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.methods.patch_corruption import PatchScorer
from robustvit.recording.block_outputs import block_tokens
from robustvit.runtime.evaluation_mode import evaluation_mode

KINDS = ("random", "adversarial")
FIT_BATCH = 16

Mechanism = dict[str, dict[str, float]]
""""random, rho 0.1" -> `feature_change` and `same_answer`, shares."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", help="[LABEL=]NAME or [LABEL=]FOLDER")
    parser.add_argument("--data", default="scenes-easy:256", help="images to measure on; generated ones by default")
    parser.add_argument("--fit-data", default="scenes-easy:1024", help="images for the corruption networks")
    parser.add_argument("--limit", type=int, default=1000, help="images to measure on, and twice as many to fit on, at most")
    parser.add_argument("--rho", type=float, nargs="+", default=[0.1, 0.3])
    parser.add_argument("--fit-steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--records", type=Path, help="folder with a file per network that was measured, which is not repeated")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found: dict[str, list[Mechanism]] = {}
    for given in options.networks:
        label, _, place = given.rpartition("=")
        found.setdefault(label or place, []).append(measured(place, options))
    print("\n".join(table(found)))


def measured(place: str, options: argparse.Namespace) -> Mechanism:
    """What an earlier call has measured, or what this one does; RUN/weights is known by the name of the run."""
    path = Path(place)
    record = options.records / f"{path.parent.name if path.name == 'weights' else path.name}.json" if options.records else None
    if record is not None and record.exists():
        known: Mechanism = json.loads(record.read_text())
        return known
    how = dict(rhos=options.rho, fit_steps=options.fit_steps, seed=options.seed, limit=options.limit)
    found = patch_mechanism(network_at(place), options.data, options.fit_data, **how)
    if record is not None:
        rounded = {kind: {name: round(value, 5) for name, value in numbers.items()} for kind, numbers in found.items()}
        write_record(record, rounded)
    return found


def network_at(place: str) -> nn.Module:
    """A network by its name, or by the folder of its weights."""
    return rv.create_model(f"local-dir:{place}" if Path(place).is_dir() else place, pretrained=True).eval()


def patch_mechanism(
    network: nn.Module,
    data: str,
    fit_data: str,
    *,
    rhos: Sequence[float] = (0.1, 0.3),
    fit_steps: int = 200,
    seed: int = 0,
    limit: int = 1000,
) -> Mechanism:
    """What covered patches do to one network.

    Args:
        network: a classifier with blocks; left as it was.
        data: images to measure on, as `robustvit analyze --images` takes them.
        fit_data: others, for the corruption network.
        rhos: shares of the patches.
        fit_steps: of the fitting, each with 16 images.
        seed: of images, noise, random patches and the fitting.
        limit: images to measure on, at most; twice as many to fit on.
    """
    subject = make_subject("network", network, data, Options(batch_size=100, seed=seed), limit=limit)
    others = make_subject("network", network, fit_data, Options(batch_size=FIT_BATCH, seed=seed), limit=2 * limit)
    found: Mechanism = {}
    for rho in rhos:
        settings = PatchSettings(rho)
        scorer = fit_scorer(others.pixel_network, endless(others), settings, steps=fit_steps, seed=seed)
        for kind in KINDS:
            found[f"{kind}, rho {rho:g}"] = effect(subject, settings, scorer if kind == "adversarial" else None, seed)
    return found


def endless(subject: Subject) -> Iterator[Tensor]:
    """float [16, 3, H, W] in 0 .. 1, the images over and over.

    Raises:
        ValueError: there are fewer than 16.
    """
    if len(subject.pictures) < FIT_BATCH:
        raise ValueError(
            f"{len(subject.pictures)} images to fit on are too few; give {FIT_BATCH} or more (--fit-data, --limit)"
        )
    for _ in itertools.count():
        yield from (subject.unit(batch.pixels) for batch in subject.batches() if len(batch.ids) == FIT_BATCH)


def effect(subject: Subject, settings: PatchSettings, scorer: PatchScorer | None, seed: int) -> dict[str, float]:
    """Means over the images of a subject, with the patches that a scorer chooses, or random ones."""
    model, changes, same, images = subject.pixel_network, 0.0, 0.0, 0
    for batch in subject.batches():
        x, how = subject.unit(batch.pixels), dict(seed=seed, sample_ids=batch.ids)
        if scorer is None:
            covered = cover_random(model, x, batch.labels, settings, **how)  # type: ignore[arg-type]
        else:
            covered = cover_adversarial(model, x, batch.labels, scorer, settings, **how)  # type: ignore[arg-type]
        with evaluation_mode(model):
            changes += len(x) * feature_change(features(model, x), features(model, covered))
            same += float((model(x).argmax(1) == model(covered).argmax(1)).sum())
        images += len(x)
    return {"feature_change": changes / images, "same_answer": same / images}


def features(model: PixelNetwork, images: Tensor) -> list[Tensor]:
    """Image tokens [B, N, C] after every block."""
    return [block.tokens.double() for block in block_tokens(model.network, model.normalise(images))]


def feature_change(clean: Sequence[Tensor], covered: Sequence[Tensor]) -> float:
    """`(1 / L) sum_l mean (F_l(x^) - F_l(x))^2 / (2 var F_l(x))`, the variance of each channel over places and images."""
    shares = [
        (a - b).square().mean() / (2 * a.flatten(0, 1).var(0, correction=0).mean())
        for a, b in zip(clean, covered, strict=True)
    ]
    return float(torch.stack(shares).mean())


def table(found: dict[str, list[Mechanism]]) -> Iterator[str]:
    """Markdown: a row for each network, kind of patches and rho."""
    yield "| network | patches | feature change | same answer, % | networks |"
    yield "|---|---|---:|---:|---:|"
    for label, runs in found.items():
        for kind in runs[0]:
            change = spread([run[kind]["feature_change"] for run in runs], 3)
            same = spread([100 * run[kind]["same_answer"] for run in runs], 1)
            yield f"| {label} | {kind} | {change} | {same} | {len(runs)} |"


def spread(values: Sequence[float], digits: int) -> str:
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
