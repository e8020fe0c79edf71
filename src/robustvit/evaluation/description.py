"""What a result says about its pictures, their preparation and their corruption."""

from __future__ import annotations

from typing import Any

from robustvit.corruptions.parameters import family_of_size
from robustvit.data.readers.films import MadeFilms
from robustvit.data.samples import SomeSamples
from robustvit.evaluation.classification import Task
from robustvit.evaluation.conditions import JPEG_QUALITY, PATCH_SHARE, Condition
from robustvit.evaluation.plan import Job
from robustvit.evaluation.sequences import FILM_SIZES
from robustvit.metrics.alexnet import ALEXNET_FLIPS

__all__ = ["describe_corruption", "describe_data", "describe_protocol"]


def describe_data(job: Job) -> dict[str, Any]:
    """Which pictures, how many of how many, and whether corruptions were made or read."""
    task = job.tasks[0]
    pictures = task.pictures
    if job.films is not None:
        origin = "films made in memory" if isinstance(job.films, MadeFilms) else "films on disk"
        return {"name": job.films.name, "images": len(job.films), "origin": origin}
    whole = pictures.pictures if isinstance(pictures, SomeSamples) else pictures
    made = "corruptions made in memory" if len(task.conditions) > 1 else "pictures as they are"
    order = getattr(whole, "order_note", None) if task.matching.by == "order" else None
    return {
        "name": pictures.name,
        "images": len(pictures),
        "of": len(whole),
        "classes": len(pictures.classes) or len(task.targets),
        "origin": made if job.kind == "memory" else "files on disk",
        **({"class_order": order} if order else {}),
        **({"classes_matched_by": task.matching.by} if pictures.classes else {}),
    }


def describe_protocol(task: Task) -> dict[str, Any]:
    return {**task.protocol.describe(), "mean": task.mean, "std": task.std}


def describe_corruption(job: Job) -> dict[str, Any]:
    """How corruptions were made in memory; empty where nothing was made."""
    damage, size = job.tasks[0].damage, job.tasks[0].protocol.size
    if isinstance(job.films, MadeFilms):
        return {"seed": job.films.seed, "benchmark": job.films.benchmark, **_flip_baseline(job)}
    if job.films is not None:
        return _flip_baseline(job)
    conditions = job.tasks[0].conditions
    if job.kind == "files" or len(conditions) == 1:
        return {}
    names = {condition.name for condition in conditions}
    about: dict[str, Any] = {"seed": damage.seed}
    if names - {"clean", "patches"}:
        about |= {"family": family_of_size(*size), "channel_order": damage.channel_order}
        about["jpeg"] = f"quality {JPEG_QUALITY} after every corruption" if damage.jpeg else "no"
    if "frost" in names:
        about["frost"] = str(damage.frost_folder) if damage.frost_folder else "generated textures"
    if Condition("patches") in conditions:
        about |= {"patch": damage.patch, "patch_share": PATCH_SHARE}
    return about


def _flip_baseline(job: Job) -> dict[str, Any]:
    if FILM_SIZES[job.tasks[0].protocol.size] != "imagenet":
        return {}
    confirmed = "" if ALEXNET_FLIPS.confirmed else " (to be confirmed)"
    return {"flip_rates_divided_by": f"{ALEXNET_FLIPS.name}{confirmed}"}
