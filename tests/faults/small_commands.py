"""The commands that work for long, each in a form of a second, and what must be the same however often they are ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

VIT = "model={name: vit_pico, options: {depth: 1}}"
TRAINING = (
    VIT,
    "data={train: 'scenes-easy:16', val: 'scenes-easy:4'}",
    "loop={batch_size: 4, checkpoint_every: 1, log_every: 1, keep: 2, ema_decay: 0.9, device: cpu}",
    "schedule={epochs: 1, warmup_epochs: 0}",
)
CHANGES = [part for change in TRAINING for part in ("--set", change)]
_DIFFERENT = ("created", "seconds", "versions", "checksum")
"""What two equal runs say differently."""


@dataclass(frozen=True)
class SmallCommand:
    """A command.

    Attributes:
        arguments: of its first run, without the output folder; `{root}` is a folder for what it reads.
        resume: what to add for the second.
        result: what its folder says, to be compared.
        last_work: the file whose last renaming ends the work; what follows is the clean-up.
        is_positional: the output folder is no option.
    """

    arguments: tuple[str, ...]
    resume: tuple[str, ...]
    result: Callable[[Path], Any]
    last_work: str
    is_positional: bool = False

    def line(self, root: Path, output: Path, *, resume: bool = False) -> list[str]:
        """What is typed after `robustvit`."""
        name, *rest = (part.replace("{root}", str(root)) for part in self.arguments)
        place = [str(output)] if self.is_positional else ["--output", str(output)]
        return [name, *rest, *place, *(self.resume if resume else ())]


def plain(value: Any) -> Any:
    """Without times, dates and versions."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items() if key not in _DIFFERENT}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def stored_json(path: Path) -> Any:
    return plain(json.loads(path.read_text()))


def trained(folder: Path) -> dict[str, Any]:
    files = [*folder.glob("*/model.safetensors"), *folder.glob("*/config.json"), folder / "metrics.jsonl"]
    summary = json.loads((folder / "summary.json").read_text())
    del summary["notes"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files} | {"summary": summary}


def measured(folder: Path) -> dict[str, Any]:
    return {"results": stored_json(folder / "results.json"), "csv": (folder / "results.csv").read_text()}


def analysed(folder: Path) -> dict[str, Any]:
    with np.load(folder / "arrays.npz") as stored:
        arrays = {name: stored[name].tobytes() for name in stored.files}
    analysis = stored_json(folder / "analysis.json")
    del analysis["files"]  # of figures, which not every test draws
    return {"analysis": analysis, "arrays": arrays}


def predicted(folder: Path) -> dict[str, Any]:
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*g") if path.is_file()}
    return {**files, "about": stored_json(folder / "predictions.json"), "csv": (folder / "predictions.csv").read_text()}


def copied(folder: Path) -> dict[str, Any]:
    """All copies, and that the list of checksums has each of them, and nothing else."""
    listed = [line for path in folder.glob("checksums-*") for line in path.read_text(errors="replace").splitlines()]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.png")}
    return {**files, "listed": sorted(set(listed))}


def swept(folder: Path) -> dict[str, Any]:
    runs = {run.name: trained(run) | measured(run / "evaluation") for run in sorted((folder / "runs").iterdir())}
    return {"sweep": stored_json(folder / "sweep.json"), "table": (folder / "sweep.md").read_text(), **runs}


def demonstrated(folder: Path) -> dict[str, Any]:
    return measured(folder) | {name: trained(folder / name) for name in ("vit_nano", "fan_vit_nano")}


def shorten_demo() -> None:
    """Makes the demonstration one of seconds, in a process of its own."""
    from robustvit.demo import contest

    def short(name: str, config: Any) -> Any:
        fan = dict(embed_dims=[32], depths=[1], num_heads=[2])
        options = fan if name.startswith("fan") else dict(embed_dim=32, depth=1, num_heads=2)
        return replace(
            config,
            model=replace(config.model, options=options),
            data=replace(config.data, train="scenes-easy:16", val="scenes-easy:4"),
            schedule=replace(config.schedule, epochs=1, warmup_epochs=0.0),
            loop=replace(config.loop, batch_size=8, checkpoint_every=1),
        )

    whole = contest.CONTESTS["classification"]
    networks = {name: short(name, config) for name, config in whole.contestants.items()}
    contest.CONTESTS["classification"] = replace(whole, contestants=networks, images=2)


def make_images(root: Path) -> None:
    """What `corrupt` copies."""
    values = np.random.default_rng(0).integers(0, 256, (6, 40, 40, 3), np.uint8)
    for i in range(6):
        place = root / "pictures" / f"class{i % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(values[i]).save(place / f"{i}.png")


RESUME = ("--resume",)
EVALUATED = ("--data", "scenes-easy:6", "--suite", "clean", "fog", "--severity", "3", "--batch-size", "2")
PREDICTED = ("--images", "{root}/pictures", "--corruption", "fog", "--batch-size", "2")
COPIED = ("--names", "fog", "contrast", "--severities", "2", "--size", "32", "--format", "png")
SWEPT = ("--vary", "optimizer.lr=0.001,0.01", "--suite", "clean", "--data", "scenes-easy:4", "--batch-size", "2")
COMMANDS = {
    "train": SmallCommand(("train", *CHANGES), RESUME, trained, "checkpoint-"),
    "eval": SmallCommand(("eval", "vit_pico", *EVALUATED), RESUME, measured, "results.json"),
    "attack": SmallCommand(
        ("attack", "vit_pico", "--data", "scenes-easy:4", "--attack", "fgsm", "--batch-size", "1"),
        RESUME,
        measured,
        "results.json",
    ),
    "analyze": SmallCommand(
        ("analyze", "vit_pico", "--images", "scenes-easy:4", "--what", "head-diversity", "bottleneck"),
        RESUME,
        analysed,
        "analysis.json",
    ),
    "predict": SmallCommand(("predict", "vit_pico", *PREDICTED), RESUME, predicted, "predictions.json"),
    "corrupt": SmallCommand(("corrupt", "{root}/pictures", *COPIED, "--workers", "1"), (), copied, ".png", True),
    "sweep": SmallCommand(("sweep", *CHANGES, *SWEPT), RESUME, swept, "cell.json"),
    "demo": SmallCommand(("demo",), (), demonstrated, "results.json"),
}
