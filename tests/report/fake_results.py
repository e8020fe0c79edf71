"""Results as an evaluation would give them, made without a network."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from PIL import Image

from robustvit.corruptions.registry import corrupt, corruption_names
from robustvit.evaluation.results import (
    CellResult,
    Difference,
    Example,
    ExampleImage,
    Measurement,
    ModelResults,
    Results,
    Value,
)
from robustvit.report.grids import grids_of

SEQUENCES = (
    "gaussian_noise",
    "shot_noise",
    "motion_blur",
    "zoom_blur",
    "snow",
    "brightness",
    "translate",
    "rotate",
    "tilt",
    "scale",
)
PROTOCOL = {
    "name": "model",
    "size": (224, 224),
    "short_side": 248,
    "interpolation": "bicubic",
    "meaning": "what the network was published with: short side to size / crop_pct, centre crop",
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}
VERSIONS = {"robustvit": "0.1.0", "torch": "2.8.0", "timm": "1.0.30", "numpy": "2.2.1", "python": "3.11.9"}


def around(value: float, half: float = 0.012) -> Value:
    return Value(value, value - half, value + half)


def corruption_cells(suite: str, clean: float, strength: float, images: int, severities: Sequence[int]) -> list[CellResult]:
    """Accuracy falls with severity, faster for some corruptions than for others."""
    names = corruption_names("common15" if suite == "imagenet-c" else suite)
    cells = []
    for place, name in enumerate(names):
        hardness = 0.05 + 0.13 * (0.5 + 0.5 * math.sin(2.7 * place + 1)) * strength
        for s in severities:
            accuracy = clean * math.exp(-hardness * s * (1 + 0.12 * s))
            cells.append(fake_cell(suite, name, s, images, around(accuracy), calibration_error=0.02 + 0.02 * s))
    return cells


def fake_cell(
    suite: str, condition: str, severity: int, images: int, accuracy: Value | None = None, **numbers: float
) -> CellResult:
    """A cell of a classifier."""
    values = {} if accuracy is None else {"accuracy": accuracy}
    return CellResult(suite, condition, severity, images, {**values, **{key: Value(n) for key, n in numbers.items()}})


def fake_model(
    name: str = "fan_vit_tiny",
    *,
    suite: str = "common15",
    clean: float = 0.792,
    strength: float = 1.0,
    images: int = 5000,
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    examples: int = 0,
    extras: bool = False,
) -> ModelResults:
    """One network under clean images and a suite of corruptions; `extras` adds natural shifts, patches and sequences."""
    cells = [fake_cell("clean", "clean", 0, images, around(clean), calibration_error=0.031)]
    summary = {"clean_accuracy": around(clean), "expected_calibration_error": around(0.031, 0.004)}
    if suite != "clean":
        grid = corruption_cells(suite, clean, strength, images, severities)
        average = float(np.mean([cell.accuracy.value for cell in grid if cell.accuracy]))
        cells += grid
        summary |= {
            "mean_accuracy": around(average, 0.009),
            "retention": around(average / clean, 0.011),
        }
        if suite in ("common15", "all19", "imagenet-c"):
            summary |= {
                "mean_accuracy_19" if suite == "all19" else "mean_accuracy_15": around(average, 0.009),
                "mean_corruption_error": around(1.25 * (1 - average), 0.01),
                "relative_mean_corruption_error": around(1.1 * (1 - average), 0.02),
            }
    if extras:
        more, shifts = _extras(clean, strength)
        cells, summary = cells + more, summary | shifts
    shown = tuple(fake_example(k) for k in range(examples))
    return ModelResults(name, 7_345_678, PROTOCOL, summary, tuple(cells), examples=shown, seconds=4021.0)


def _extras(clean: float, strength: float) -> tuple[list[CellResult], dict[str, Value]]:
    flips = {name: 0.03 + 0.01 * k * strength for k, name in enumerate(SEQUENCES)}
    cells = [
        fake_cell("imagenet-a", "clean", 0, 7500, around(0.35 * clean), calibration_error=0.21),
        fake_cell("imagenet-r", "clean", 0, 30000, around(0.6 * clean, 0.005), calibration_error=0.11),
        fake_cell("patches", "patches", 0, 5000, around(0.93 * clean), calibration_error=0.045),
        *(fake_cell("imagenet-p", name, 0, 1000, None, flip_probability=value) for name, value in flips.items()),
    ]
    average = sum(flips.values()) / len(flips)
    return cells, {
        "imagenet_a_accuracy": around(0.35 * clean),
        "imagenet_r_accuracy": around(0.6 * clean, 0.005),
        "patches_accuracy": around(0.93 * clean),
        "mean_flip_probability": Value(average),
        "mean_flip_rate": Value(5 * average),
    }


def fake_example(number: int) -> Example:
    """A drawn image under five conditions, wrong under the last ones."""
    rng = np.random.default_rng(number)
    y, x = np.mgrid[0:96, 0:96]
    ground = np.stack([120 + 60 * np.sin(x / (9 + 3 * c) + number) + 40 * np.cos(y / 17) for c in range(3)], -1)
    disc = (x - 48) ** 2 + (y - 50) ** 2 < 28**2
    ground[disc] = rng.integers(30, 255, 3)
    image = Image.fromarray(ground.clip(0, 255).astype(np.uint8))
    spoiled = (("gaussian_noise", 3), ("defocus_blur", 3), ("contrast", 4), ("pixelate", 5), ("jpeg_compression", 5))
    shots = []
    for k, (condition, severity) in enumerate((("clean", 0), *spoiled)):
        seen = corrupt(image, condition, severity, family="arbitrary") if severity else image
        right = k < 3 + number
        answer = "disc" if right else "golden retriever"
        shots.append(ExampleImage(condition, severity, data_uri(seen), answer, 0.93 - 0.1 * k, right))
    return Example(f"disc/picture_{number:04}.png", "disc", tuple(shots))


def data_uri(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def fake_results(*models: ModelResults, suites: Sequence[str] = ("clean", "common15")) -> Results:
    data = {"name": "imagenet/val", "images": 5000, "classes": 1000, "subset": "every 10th", "seed": 0, "jpeg": False}
    return Results(models, tuple(suites), data, VERSIONS, "2026-01-31T12:00:00+00:00")


def with_groups(model: ModelResults) -> ModelResults:
    """The same with intervals of groups and corruptions, as a measurement has them."""
    grid = grids_of(model)[0]
    groups = {group: around(grid.mean(names) or 0.0, 0.008) for group, names in grid.groups.items()}
    corruptions = {name: around(grid.mean([name]) or 0.0) for name in grid.corruptions}
    measured = Measurement(grid.suites, {"images": 5000}, PROTOCOL, {}, model.summary, {}, groups, corruptions)
    return replace(model, measurements=(measured,))


def with_differences(results: Results, half: float = 0.01) -> Results:
    """The same, every two networks compared; intervals reach `half` to both sides."""
    models = tuple(with_groups(model) for model in results.models)
    found = []
    for first, second in combinations(models, 2):
        one, other = first.measurements[0], second.measurements[0]
        shared = [name for name in one.summary if name in other.summary and one.summary[name].low is not None]
        summary = {name: around(one.summary[name].value - other.summary[name].value, half) for name in shared}
        groups = {g: around(v.value - other.group_accuracies[g].value, half) for g, v in one.group_accuracies.items()}
        found.append(Difference(first.name, second.name, one.suites, 5000, summary, groups))
    return replace(results, models=models, differences=tuple(found))


def three_models(**options: bool | int) -> Results:
    models = (
        fake_model("fan_vit_tiny", strength=0.8, **options),  # type: ignore[arg-type]
        fake_model("deit_tiny_patch16_224", clean=0.722, strength=1.5, **options),  # type: ignore[arg-type]
        fake_model("runs/finetuned/fan_hybrid_small-last.safetensors", clean=0.831, strength=0.78, **options),  # type: ignore[arg-type]
    )
    return fake_results(*models, suites=("clean", "common15", "imagenet-a", "imagenet-p"))
