"""The analyses by name: what each needs of a network, and from a subject to a finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from robustvit.analysis import attention_maps as maps_of
from robustvit.analysis import attention_stability, clusters, head_diversity, noise_decay, occlusion, overfocus
from robustvit.analysis import patch_corruption as patch_effects
from robustvit.analysis import token_labels as labels_of
from robustvit.analysis.bottleneck import group_points
from robustvit.analysis.eigenvalues import eigenvalue_counts
from robustvit.analysis.finding import Finding
from robustvit.analysis.full_augmentation import fully_augmented
from robustvit.analysis.subject import Batch, Subject
from robustvit.attacks.attack import FIT_BATCH, FIT_REMEDY
from robustvit.attacks.chosen_patches import AdversarialPatches
from robustvit.attacks.patches import PatchSettings
from robustvit.evaluation.attacking import Attacker
from robustvit.recording.block_outputs import block_tokens, blocks_of
from robustvit.recording.tape import attention_blocks
from robustvit.runtime.memory import fits_memory

__all__ = ["STUDIES", "Need", "Study", "bottleneck_finding"]

Need = Literal["attention", "blocks", "token head", "answers", "nothing"]
"""attention: maps among tokens. blocks: with attention, or residual ones. token head: of STL. answers: any classifier.
nothing: not even a network."""
QUERY_LAYERS = 4
CONFIDENCES_OF = 16
"""Pictures whose tokens' confidences are counted, as in STL's Fig. 2."""


@dataclass(frozen=True)
class Study:
    """One analysis.

    Attributes:
        needs: what a network must have.
        run: subject -> finding.
    """

    needs: Need
    run: Callable[[Subject], Finding]


def _attention(subject: Subject) -> Finding:
    options = subject.options
    one = subject.only(options.picture)
    layers = options.layers or _spread(len(attention_blocks(subject.network)), QUERY_LAYERS)
    arrays: dict[str, np.ndarray] = {}
    for state, pixels in (("clean", one.pixels), ("spoiled", subject.spoiled(one))):
        found = maps_of.attention_maps(subject.network, subject.normalised(pixels)[0], layers=layers, query=options.query)
        arrays |= {f"{state}/picture": _picture(pixels[0]), f"{state}/heads": found.head_maps.numpy()}
        for layer, whole, seen in zip(found.layers, found.layer_maps, found.query_maps, strict=True):
            arrays |= {f"{state}/layer {layer}": whole.numpy(), f"{state}/query {layer}": seen.cpu().numpy()}
    numbers = {
        "picture": one.ids[0],
        "layers": list(found.layers),
        "cosine": [_cosine(*(arrays[f"{state}/layer {layer}"] for state in ("clean", "spoiled"))) for layer in found.layers],
        "query": list(options.query),
        "heads": len(found.head_maps),
    }
    return Finding(maps_of.DEFINITION, numbers, arrays)


def _cosine(first: np.ndarray, second: np.ndarray) -> float:
    a, b = first.astype(np.float64), second.astype(np.float64)
    return float((a * b).sum() / max(np.linalg.norm(a) * np.linalg.norm(b), np.finfo(np.float64).tiny))


def _spread(count: int, most: int) -> tuple[int, ...]:
    """At most `most` positions over 0 .. count - 1, the first and the last among them."""
    return tuple(dict.fromkeys(np.linspace(0, count - 1, min(most, count)).round().astype(int).tolist()))


def _stability(subject: Subject) -> Finding:
    found = attention_stability.attention_stability(subject.network, subject.pairs())
    layers = [float(values.mean()) for values in found.of_layers]
    numbers = {"pictures": len(found.of_pictures), "mean": found.mean, "worst_5_percent": found.worst, "layers": layers}
    heads = {f"layer {i}": values.numpy() for i, values in enumerate(found.of_layers)}
    return Finding(attention_stability.DEFINITION, numbers, {"pictures": found.of_pictures.numpy(), **heads})


def _occlusion(subject: Subject) -> Finding:
    options = subject.options
    settings = PatchSettings(options.rho)
    right, cosines, clean = [], [], []
    for batch in subject.batches():
        pixels = subject.unit(batch.pixels)
        found = occlusion.occlusion_study(
            subject.pixel_network,
            pixels,
            batch.labels,
            masks=options.masks,
            settings=settings,
            seed=options.seed,
            sample_ids=batch.ids,
        )
        right.append(found.right)
        clean.append(found.clean_right)
        cosines += [found.cosines] if found.cosines is not None else []
    accuracies = torch.cat(right, dim=1).float().mean(1)  # masks
    arrays = {"accuracies": accuracies.numpy()}
    numbers: dict[str, Any] = {"masks": options.masks, "rho": options.rho, "truth": subject.truth}
    numbers["clean_accuracy"] = float(torch.cat(clean).float().mean())
    numbers |= {"mean_accuracy": float(accuracies.mean()), "lowest_accuracy": float(accuracies.min())}
    numbers |= {"highest_accuracy": float(accuracies.max())}
    if cosines:
        values = torch.cat(cosines, dim=1)  # masks pictures
        arrays["cosines"] = values.numpy()
        numbers["mean_cosine"] = float(values.mean())
    return Finding(occlusion.DEFINITION, numbers, arrays)


def _head_diversity(subject: Subject) -> Finding:
    values = head_diversity.head_diversity(subject.network, subject.clean())
    numbers = {"mean": float(values.nanmean()), "layers": _list(values)}
    return Finding(head_diversity.DEFINITION, numbers, {"layers": values.numpy()})


def _overfocus(subject: Subject) -> Finding:
    found = overfocus.overfocus(subject.network, subject.clean())
    arrays = {name: value.numpy() for name, value in vars(found).items()}
    return Finding(overfocus.DEFINITION, {name: _list(value) for name, value in vars(found).items()}, arrays)


def _eigenvalues(subject: Subject) -> Finding:
    found = eigenvalue_counts(subject.network, subject.clean(), subject.options.epsilon)
    numbers = {"significant": _list(found.significant), "zero": _list(found.zero), "epsilon": found.epsilon}
    return Finding(found.definition, numbers, {"significant": found.significant.numpy(), "zero": found.zero.float().numpy()})


def _noise_decay(subject: Subject) -> Finding:
    options = subject.options
    batches = ((batch.ids, subject.normalised(batch.pixels)) for batch in subject.batches())
    values = noise_decay.noise_decay(subject.network, batches, kind=options.noise, sigma=options.sigma, seed=options.seed)
    numbers = {"kind": options.noise, "sigma": options.sigma if options.noise == "perturbation" else 1.0}
    return Finding(
        noise_decay.DEFINITIONS[options.noise], {**numbers, "strength": _list(values)}, {"strength": values.numpy()}
    )


def _clusters(subject: Subject) -> Finding:
    options = subject.options
    count = len(blocks_of(subject.network))
    positions = maps_of.block_positions(options.layers or (_second_last(subject),), count)
    arrays: dict[str, np.ndarray] = {}
    agreements: dict[int, list[float]] = {layer: [] for layer in positions}
    places = {name: place for place, name in enumerate(subject.shown_ids())}
    seen = 0
    for batch in subject.batches():
        spoiled = subject.spoiled(batch)
        clean, other = (block_tokens(subject.network, subject.normalised(x)) for x in (batch.pixels, spoiled))
        for layer in positions:
            groups = (clusters.clusters_in(blocks[layer], options.clusters, seed=options.seed) for blocks in (clean, other))
            for i, (a, b) in enumerate(zip(*groups, strict=True)):
                agreements[layer].append(clusters.agreement(a, b))
                if (place := places.get(batch.ids[i])) is not None:
                    arrays[f"{place}/clean/{layer}"] = a.labels
                    arrays[f"{place}/spoiled/{layer}"] = clusters.matched(a, b).labels
        for i, place in _found(places, batch):
            arrays |= {f"{place}/clean/picture": _picture(batch.pixels[i]), f"{place}/spoiled/picture": _picture(spoiled[i])}
        seen += len(batch.ids)
    numbers: dict[str, Any] = {"layers": list(positions), "pictures": seen}
    numbers["adjusted_rand_index"] = [float(np.mean(agreements[layer])) for layer in positions]
    return Finding(clusters.DEFINITION, numbers, arrays)


def _second_last(subject: Subject) -> int:
    """The second-last block, or the last one before it that has more tokens than groups can be chosen."""
    grids = [block.grid for block in block_tokens(subject.network, subject.normalised(subject.only().pixels))]
    last = max(len(grids) - 2, 0)
    return next((i for i in range(last, -1, -1) if grids[i][0] * grids[i][1] > clusters.MOST_CLUSTERS), last)


def _token_labels(subject: Subject) -> Finding:
    options = subject.options
    first = list(subject.batches(max(options.shown, CONFIDENCES_OF)))
    whole = _labelled(subject, first)
    confidences = whole["confidences"][:CONFIDENCES_OF].ravel()
    numbers = {
        "foreground_share": float(whole["foreground"].mean()),
        "augmented_foreground_share": float(whole["augmented_foreground"].mean()),
        "mean_confidence": float(confidences.mean()),
        "pictures": len(whole["pictures"]),
        "sure": options.sure,
        "truth": subject.truth,
        "without_cutmix": len(whole["pictures"]) < 2,
    }
    ids = [name for batch in first for name in batch.ids]
    chosen = subject.shown_ids()
    if not set(chosen) <= set(ids):  # the others are there as partners of CutMix
        ids = [*chosen, *(name for name in ids if name not in chosen)]
        batches = (ids[i : i + options.batch_size] for i in range(0, len(ids), options.batch_size))
        whole = _labelled(subject, [subject.named(batch) for batch in batches])
    rows = [ids.index(name) for name in chosen]
    shown = {name: value[rows] for name, value in whole.items() if name != "confidences"}
    return Finding(labels_of.DEFINITION, numbers, {**shown, "confidences": confidences})


def _labelled(subject: Subject, batches: Sequence[Batch]) -> dict[str, np.ndarray]:
    """Maps and pictures of all batches, among which the partners of CutMix are chosen."""
    options, model = subject.options, subject.pixel_network
    parts: dict[str, list[np.ndarray]] = {}
    everything = torch.cat([batch.pixels for batch in batches])
    augmentations = fully_augmented(model, everything, [i for batch in batches for i in batch.ids], options.seed)
    for batch, broken in zip(batches, augmentations.split([len(batch.ids) for batch in batches]), strict=True):
        inputs = (subject.normalised(batch.pixels), model.normalise(broken.to(subject.device)).to(subject.dtype))
        how: dict[str, Any] = dict(seed=options.seed, sample_ids=batch.ids)
        found, augmented = (labels_of.token_labels(subject.network, x, batch.labels, **how) for x in inputs)
        one = {"foreground": found.foreground, "levels": found.levels(options.sure), "drawn": found.drawn_foreground}
        one |= {"augmented_foreground": augmented.foreground, "confidences": found.confidences}
        arrays = {name: value.cpu().numpy() for name, value in one.items()}
        arrays |= {"pictures": _pictures(batch.pixels), "augmented_pictures": _pictures(_to_8_bits(broken))}
        for name, value in arrays.items():
            parts.setdefault(name, []).append(value)
    return {name: np.concatenate(values) for name, values in parts.items()}


def _patch_corruption(subject: Subject) -> Finding:
    options, model = subject.options, subject.pixel_network
    attack = _attack(subject)
    assert attack.scorer is not None
    confidences: dict[str, list[Tensor]] = {name: [] for name in ("clean", "spoiled", "by_chance")}
    places = {name: place for place, name in enumerate(subject.shown_ids())}
    shown: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for batch in subject.batches():
        pixels = subject.unit(batch.pixels)
        how: dict[str, Any] = dict(seed=options.seed, sample_ids=batch.ids)
        effect = patch_effects.patch_effect(model, pixels, batch.labels, attack.scorer, attack.settings, **how)
        for name, values in confidences.items():
            values.append(getattr(effect, name))
        for i, place in _found(places, batch):
            shown[place] = (_picture(batch.pixels[i]), _picture(_to_8_bits(effect.chosen[i])))
    whole = {name: torch.cat(values) for name, values in confidences.items()}
    numbers: dict[str, Any] = {f"mean_confidence_{name}": float(value.mean()) for name, value in whole.items()}
    numbers |= {"rho": options.rho, "truth": subject.truth, "corruption_network": attack.describe()["corruption_network"]}
    numbers |= {"fit_steps": attack.settings.fit_steps} if options.corruption_model is None else {}
    arrays = {name: np.stack([shown[place][k] for place in sorted(shown)]) for k, name in enumerate(("pictures", "chosen"))}
    return Finding(patch_effects.DEFINITION, numbers, {**arrays, **{name: value.numpy() for name, value in whole.items()}})


def _attack(subject: Subject) -> AdversarialPatches:
    """With the corruption network that was trained, or with one that is fitted to this network now."""
    attack = patch_effects.chosen_patches(subject.options)
    learned = 0

    def tell(count: int) -> None:
        nonlocal learned
        learned += count
        subject.tell(learned, attack.learns_from)

    attacker = Attacker(subject.pixel_network, (attack,), subject.pictures, subject.protocol, subject.options.seed)
    with fits_memory(FIT_BATCH, subject.protocol.size, FIT_REMEDY):
        ready = attacker.prepare(tell)[0]
    assert isinstance(ready, AdversarialPatches)
    return ready


def bottleneck_finding(seed: int = 0, steps: int = 12) -> Finding:
    """Points of four Gaussians, grouped by the iteration that self-attention resembles (FAN 2.3)."""
    generator = torch.Generator().manual_seed(seed)
    middles = torch.tensor([[-2.0, -1.5], [2.0, -1.5], [-1.6, 2.0], [2.2, 1.8]], dtype=torch.float64)
    covariance = torch.tensor([[0.35, 0.08], [0.08, 0.3]], dtype=torch.float64)
    noise = torch.randn(4, 60, 2, generator=generator, dtype=torch.float64) @ torch.linalg.cholesky(covariance).T
    points = (middles[:, None] + noise).flatten(0, 1)
    start = 0.8 * torch.randn(4, 2, generator=generator, dtype=torch.float64)
    centres = torch.stack(group_points(points, start, covariance, steps))  # steps + 1, 4, 2
    moved = float((centres[-1] - centres[-2]).norm(dim=1).max())
    definition = (
        "each centre becomes the mean of the points, weighted by softmax over clusters of -(x - mu)^T Sigma^-1 (x - mu): the "
        "iteration of the information bottleneck with a shared covariance, which equals softmax(Q K^T / d) V where "
        "mu^T Sigma^-1 mu is the same for all clusters"
    )
    arrays = {"points": points.numpy(), "centres": centres.numpy()}
    return Finding(definition, {"steps": steps, "points": len(points), "last_move": moved}, arrays)


STUDIES: Mapping[str, Study] = {
    "attention": Study("attention", _attention),
    "stability": Study("attention", _stability),
    "occlusion": Study("answers", _occlusion),
    "head-diversity": Study("attention", _head_diversity),
    "overfocus": Study("attention", _overfocus),
    "eigenvalues": Study("blocks", _eigenvalues),
    "noise-decay": Study("blocks", _noise_decay),
    "clusters": Study("blocks", _clusters),
    "token-labels": Study("token head", _token_labels),
    "patch-corruption": Study("blocks", _patch_corruption),
    "bottleneck": Study("nothing", lambda subject: bottleneck_finding(subject.options.seed)),
}
"""Name -> analysis."""


def _list(values: Tensor) -> list[float]:
    return [float(value) for value in values]


def _to_8_bits(pixels: Tensor) -> Tensor:
    return (pixels * 255).round().to(torch.uint8)


def _picture(pixels: Tensor) -> np.ndarray:
    return pixels.permute(1, 2, 0).cpu().numpy()


def _pictures(pixels: Tensor) -> np.ndarray:
    return pixels.permute(0, 2, 3, 1).cpu().numpy()


def _found(places: Mapping[str, int], batch: Batch) -> list[tuple[int, int]]:
    """(place in the batch, place in the figure) of the pictures of a batch that figures show."""
    return [(i, places[name]) for i, name in enumerate(batch.ids) if name in places]
