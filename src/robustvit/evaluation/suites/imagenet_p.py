"""ImageNet-P: how often a network changes its mind while an image changes little by little, in ten kinds of films."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from robustvit.corruptions.conditions import Condition
from robustvit.corruptions.sequences import SEQUENCES, Benchmark
from robustvit.data.layouts import suite_folder
from robustvit.data.normalisation import Normalisation
from robustvit.data.readers.films import FilmSet, MadeFilms, StoredFilms
from robustvit.data.samples import DatasetSamples, SomeSamples, UnreadablePictureError
from robustvit.evaluation.passes import Pass, PassReport, counter
from robustvit.evaluation.planning import bound_task, protocol_for, samples_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.alexnet import ALEXNET_FLIPS
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.flips import flip_probability, mfp, mfr, sequence_rule
from robustvit.metrics.measures import DISTANCE, RATIO, Measure, measure_of, register
from robustvit.metrics.top5_distance import LARGEST_DISTANCE, mean_ut5d, rank_classes, sequence_top5_distance
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.prefetch import Prefetch
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import Part, StoredWork
from robustvit.tasks.base import Task
from robustvit.tasks.class_matching import Matching
from robustvit.tasks.classification import Classification
from robustvit.tasks.scoring import Scoring
from robustvit.tasks.tallies import Tallies, Tally

__all__ = ["FILM_SIZES", "ImageNetP", "film_kinds"]

FILM_SIZES: dict[tuple[int, int], Benchmark] = {(224, 224): "imagenet", (32, 32): "cifar"}
"""Size of the frames -> whose parameters make them."""
MEAN_FLIP_RATE = register(
    Measure(
        "mean_flip_rate",
        "mFR (unconfirmed)",
        "For each of the 10 sequence types of ImageNet-P, the share of frames at which the answer changes, over that of "
        "AlexNet; then the mean. Unconfirmed: no published file of AlexNet's numbers was found, so this may differ from mFR "
        "in papers; compare networks that were measured here, or read the flip probability.",
        short="mFR (AlexNet = 100 %, unconfirmed)",
        unit=RATIO,
        higher_is_better=False,
        family="sequence",
        ranks=True,
        claim="has a mean flip rate (mFR, by unconfirmed numbers of AlexNet) of {}",
    )
)
MEAN_FLIP_PROBABILITY = register(
    Measure(
        "mean_flip_probability",
        "Flip probability",
        "Share of frames at which the answer changes, averaged over the sequence types.",
        higher_is_better=False,
        family="sequence",
        ranks=True,
        claim="changes its answer at {} of the frames",
    )
)
MEAN_TOP5_DISTANCE = register(
    Measure(
        "mean_top5_distance",
        "Top-5 distance",
        "uT5D: how far the five best answers move from frame to frame (0 to 18), averaged over the sequence types; not "
        "divided by AlexNet's.",
        unit=DISTANCE,
        higher_is_better=False,
        family="sequence",
    )
)


def film_kinds(benchmark: Benchmark) -> tuple[str, ...]:
    """The 10 kinds that count: CIFAR-P has spatter in place of snow."""
    kinds = [name for name, sequence in SEQUENCES.items() if not sequence.is_extra]
    return tuple("spatter" if kind == "snow" and benchmark == "cifar" else kind for kind in kinds)


class Flips(Scoring):
    """Constancy of a classifier over the frames of a film: there is no target.

    A tally has the flip probability of a film, and its top-5 distance (uT5D) as a share of the largest possible one; NaN for
    networks with fewer than 5 outputs.
    """

    primary = measure_of("flip_probability")

    def tally(self, prediction: tuple[float, float], target: None) -> Tally:
        flips, distance = prediction
        return {"flips": flips, "distance": distance / LARGEST_DISTANCE}

    def score(self, tallies: Tallies, counts: np.ndarray) -> dict[str, np.ndarray]:
        return {self.primary.key: counts @ tallies["flips"] / counts.sum(-1)}

    def has_same_targets(self, first: Tallies, second: Tallies) -> bool:
        """Films are not compared with images."""
        return False

    def extras(self, tallies: Tallies) -> dict[str, float]:
        distance = LARGEST_DISTANCE * float(tallies["distance"].mean())
        return {} if distance != distance else {"top5_distance": distance}


@dataclass(frozen=True)
class FilmPass(Pass):
    """Every subject in a film of each kind.

    Attributes:
        task: whose answers count.
        films: what is shown.
    """

    is_of_images = False
    scoring = Flips()
    task: Classification
    films: FilmSet = None  # type: ignore[assignment]

    def run(self, processes: Processes, stored: StoredWork | None, report: PassReport | None) -> Tallied:
        films = self.films
        mine = range(processes.rank, len(films), processes.world)
        rows = {i: row for i in mine if stored and (row := stored.load(_name(i), _row)) is not None}
        step = counter(report, self.suites[0].name, len(mine))
        if rows:
            step(len(rows))
        with Prefetch(self._made([i for i in mine if i not in rows]), ahead=1) as prepared:
            for i, frames in prepared:
                rows[i] = {"skipped": frames} if isinstance(frames, str) else self._numbers(frames)
                if stored is not None:
                    stored.save(_name(i), Part(rows[i], {}))
                step(1)
        return self._tallied({i: row for part in processes.gather(rows) for i, row in part.items()})

    def _made(self, subjects: list[int]) -> Iterator[tuple[int, list[Tensor] | str]]:
        for i in subjects:
            try:
                yield i, self.films.frames(i)
            except UnreadablePictureError as error:
                yield i, str(error)

    def _numbers(self, frames: list[Tensor]) -> dict[str, Any]:
        flips, distances = [], []
        for kind, film in zip(self.films.kinds, frames, strict=True):
            ranked = [self._best_five(part) for part in film.split(self.settings.batch_size)]
            ranking, rule = np.concatenate(ranked)[None], sequence_rule(kind)  # 1 T 5
            flips.append(flip_probability(ranking[..., 0], rule))
            distances.append(sequence_top5_distance(ranking, rule) if ranking.shape[-1] == 5 else float("nan"))
        return {"flips": flips, "distances": distances}

    def _best_five(self, frames: Tensor) -> np.ndarray:
        """Classes from the best on [B, 5], or fewer where there are fewer."""
        logits = self.task.logits_of_images(self.network, frames, self.normalisation)
        return rank_classes(logits)[:, :5].cpu().numpy()

    def _tallied(self, rows: Mapping[int, Mapping[str, Any]]) -> Tallied:
        kept = [i for i in sorted(rows) if "skipped" not in rows[i]]
        skipped = [(self.films.id(i), rows[i]["skipped"]) for i in sorted(rows) if "skipped" in rows[i]]
        tallies = tuple(
            Tallies.stack([self.scoring.tally((rows[i]["flips"][k], rows[i]["distances"][k]), None) for i in kept])
            if kept
            else Tallies(0, {})
            for k in range(len(self.cells))
        )
        return Tallied([self.films.id(i) for i in kept], self.cells, tallies, skipped)

    def scored(self, tallied: Tallied) -> Tallied:
        """With the distances, where there are any, as further cells."""
        if not tallied.ids or not all(np.isfinite(row["distance"]).all() for row in tallied.rows):
            return tallied
        rows = tuple(Tallies(row.count, {"flips": row["distance"], "distance": row["distance"]}) for row in tallied.rows)
        cells = tuple(Condition(f"{cell.name} top-5 distance") for cell in tallied.cells)
        return tallied.beside(replace(tallied, cells=cells, rows=rows, skipped=[]))

    def digest(self, samples: Digest) -> None:
        self.films.add_to(samples)

    def facts(self) -> tuple[Any, ...]:
        """Not the classes: films have no targets."""
        return ("flips",)

    def describe_data(self) -> dict[str, Any]:
        origin = "films made in memory" if isinstance(self.films, MadeFilms) else "films on disk"
        return {"name": self.films.name, "images": len(self.films), "origin": origin}

    def describe_corruption(self) -> dict[str, Any]:
        made = {"seed": self.films.seed, "benchmark": self.films.benchmark} if isinstance(self.films, MadeFilms) else {}
        if FILM_SIZES[self.protocol.size] != "imagenet":
            return made
        return {**made, "flip_rates_divided_by": ALEXNET_FLIPS.name}


class ImageNetP(Suite):
    name = "imagenet-p"
    summary = "the 10 perturbation sequences of ImageNet-P: the films on disk, or the same made in memory"
    tasks = ("classification",)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        settings = replace(settings, protocol=None)  # films have a fixed one
        protocol = protocol_for(network, settings, "none")
        if protocol.size not in FILM_SIZES:
            sizes = " or ".join(f"{H}x{W}" for H, W in FILM_SIZES)
            H, W = protocol.size
            raise ValueError(
                f"{self.name} has films of {sizes} pixels and this network takes {H}x{W}; give a size if it takes more"
            )
        benchmark = FILM_SIZES[protocol.size]
        kinds = film_kinds(benchmark)
        root = suite_folder(settings.data, self.name) if settings.is_path else None
        films: FilmSet
        if root is not None and StoredFilms.found(root):
            samples: Any = SomeSamples(DatasetSamples((), str(root)), ())
            films, task = StoredFilms(root, kinds), Classification(Matching(0, ()))
        else:
            samples = samples_for(settings, protocol)
            films = MadeFilms(samples, kinds, benchmark, settings.seed)
            task = bound_task(network, settings, samples, protocol)  # type: ignore[assignment]
        return FilmPass(
            network=network,
            suites=(self,),
            cells=tuple(map(Condition, kinds)),
            cell_suites=(self.name,) * len(kinds),
            task=task,
            samples=samples,
            protocol=protocol,
            normalisation=Normalisation.of(network),
            settings=settings,
            films=films,
        )

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        kinds = [cell.name for cell in tallied.cells if cell.name in SEQUENCES]
        K = len(kinds)
        summary: dict[str, Statistic] = {MEAN_FLIP_PROBABILITY.key: lambda means: mfp(means[..., :K])}
        if "spatter" not in kinds:  # CIFAR-P, for which there are no flips of AlexNet
            baseline = np.array([ALEXNET_FLIPS.values[kind] for kind in kinds])
            summary[MEAN_FLIP_RATE.key] = lambda means: mfr(means[..., :K], baseline)
        if len(tallied.cells) > K:
            summary[MEAN_TOP5_DISTANCE.key] = lambda means: LARGEST_DISTANCE * mean_ut5d(means[..., K:])
        return summary

    def extras(self, task: Task, tallied: Tallied) -> Mapping[str, float]:
        return {}


def _row(part: Part) -> dict[str, Any]:
    """The numbers of a subject as they were stored, or why it was skipped."""
    wanted = ("skipped",) if "skipped" in part.values else ("flips", "distances")
    return {key: part.values[key] for key in wanted}


def _name(i: int) -> str:
    """Of the stored films of a subject."""
    return f"films-{i:06}"


IMAGENET_P = ImageNetP()
