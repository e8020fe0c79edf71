"""`robustvit eval`: how much of the accuracy survives, for any classifier and any folder of pictures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from robustvit.cli.console import note, print_json, progress_bar, tables, working

if TYPE_CHECKING:
    from robustvit.evaluation.results import Results, Value

__all__ = ["eval"]


def eval(  # noqa: A001
    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL [MODEL ...]")],
    *,
    data: Annotated[str, tyro.conf.arg(metavar="PATH")],
    suite: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("common15",),
    output: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("out"),
    resume: bool = False,
    limit: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    class_map: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    num_classes: Annotated[int | None, tyro.conf.arg(metavar="K")] = None,
    protocol: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    img_size: Annotated[tuple[int, int] | None, tyro.conf.arg(metavar="H W")] = None,
    seed: int = 0,
    no_jpeg: bool = False,
    bgr: bool = False,
    frost_folder: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    batch_size: Annotated[int, tyro.conf.arg(metavar="B")] = 32,
    device: str = "cpu",
    untrained: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Measure how much of a classifier's accuracy survives noise, blur, weather and compression.

    Args:
        models: NAME (published weights are fetched), NAME=FILE (weights of your own), FILE (a checkpoint that says which
            network it is of), hf-hub:ID or local-dir:FOLDER; ours, published or timm's names. Several are compared.
        data: a folder of class folders, a .tar file, a CIFAR folder, wds/... or hfds/..., or scenes (the embedded data set).
        suite: clean, common15, all19, extra4, noise, blur, weather, digital, patches, imagenet-c, imagenet-a, imagenet-r,
            imagenet-p, cifar10-c, cifar100-c.
        output: folder for results.json, results.csv and report.html.
        resume: go on with an interrupted run in the output folder; a finished one is shown again.
        limit: measure only that many pictures, drawn by the seed.
        class_map: JSON file from class names to outputs, where they are not in the same order.
        num_classes: outputs of the classifier; by default those of the weights.
        protocol: how pictures become the input: model, imagenet-c, crop, squash or none; by default the suite's own.
        img_size: height and width of the input; by default the network's.
        seed: of corruptions, subset and intervals.
        no_jpeg: imagenet-c made in memory without the JPEG step of the published files.
        bgr: swap red and blue for the corruptions, as the published Cityscapes-C and COCO-C do.
        frost_folder: photographs for frost instead of generated textures.
        batch_size: pictures at once.
        device: cpu, cuda, cuda:1, mps, ...
        untrained: allow a network without weights (to try things out).
        as_json: print JSON.
    """
    from robustvit.evaluation.evaluate import evaluate

    given = {"num_classes": num_classes, "img_size": img_size}
    networks = _networks(models, untrained, {k: v for k, v in given.items() if v}, device)
    try:
        with progress_bar() as report:
            results = evaluate(
                networks,
                data,
                suite,
                class_map=class_map,
                protocol=protocol,
                size=img_size,
                limit=limit,
                seed=seed,
                jpeg=not no_jpeg,
                channel_order="bgr" if bgr else "rgb",
                frost_folder=frost_folder,
                batch_size=batch_size,
                output=output,
                resume=resume,
                report=report,
            )
    except KeyboardInterrupt:
        note(f"stopped; what is done is kept in {output}, and the same command with --resume goes on from there")
        raise
    if int(os.environ.get("RANK", "0")):
        return
    if as_json:
        print_json(results.to_json())
        return
    _print(results)
    note(f"{output}/report.html shows it; {output}/results.json and results.csv have the numbers")


def _networks(models: Sequence[str], untrained: bool, options: dict[str, Any], device: str) -> dict[str, Any]:
    if twice := [m for i, m in enumerate(models) if m in models[:i]]:
        raise ValueError(f"{twice[0]} is given twice; give each network once")
    place = f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device
    with working(f"Loading {', '.join(models)}"):
        return {model: _load(model, untrained, options).to(place).eval() for model in models}


def _load(model: str, untrained: bool, options: dict[str, Any]) -> Any:
    from robustvit.models.loading import load_network
    from robustvit.weights import stored_architecture

    name, _, file = model.partition("=")
    if not file and Path(model).is_file():
        architecture = stored_architecture(model)
        if architecture is None:
            raise ValueError(f"{model} does not say which network it is of; give NAME={model}")
        name, file = architecture, model
    if file:
        return load_network(name, file, **options)
    return load_network(name, pretrained=not untrained, **options)


def _shown(name: str, value: Value) -> str:
    if "distance" in name:
        return f"{value.value:.2f}"
    interval = "" if value.low is None or value.high is None else f" ({value.low:.1%} to {value.high:.1%})"
    return f"{value.value:.1%}{interval}"


def _print(results: Results) -> None:
    from rich.table import Table

    table = Table(header_style="bold", pad_edge=False)
    table.add_column("")
    for model in results.models:
        table.add_column(model.name, justify="right")
    for key in dict.fromkeys(key for model in results.models for key in model.summary):
        values = [model.summary.get(key) for model in results.models]
        table.add_row(key.replace("_", " "), *(_shown(key, value) if value else "" for value in values))
    console = tables()
    console.print(table)
    skipped = sum(len(model.skipped) for model in results.models)
    if skipped:
        console.print(f"{skipped} pictures could not be read; results.json names them", highlight=False)
    for model in results.models:
        if lost := sum(cell.no_answer for cell in model.cells):
            console.print(
                f"{model.name} gave {lost} answers that are not finite numbers; they count as wrong", highlight=False
            )
