"""`robustvit eval`: how much of the accuracy survives, for any classifier and any folder of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from robustvit.cli.console import print_json
from robustvit.cli.measured import measure, print_results, tell_notes
from robustvit.cli.networks import load_networks
from robustvit.runtime.ranks import is_first_process

if TYPE_CHECKING:
    from rich.table import Table

    from robustvit.evaluation.results import Difference, Results, Value

__all__ = ["eval"]


def eval(  # noqa: A001
    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL [MODEL ...]")],
    *,
    data: Annotated[str, tyro.conf.arg(metavar="PATH")],
    name: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT [TEXT ...]")] = (),
    suite: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("common15",),
    severity: Annotated[tuple[int, ...], tyro.conf.arg(metavar="S [S ...]")] = (1, 2, 3, 4, 5),
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
    ignore_orientation: bool = False,
    batch_size: Annotated[int, tyro.conf.arg(metavar="B")] = 32,
    device: str = "cpu",
    untrained: bool = False,
    predictions: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Measure how much of a classifier's accuracy survives noise, blur, weather and compression.

    Args:
        models: NAME (published weights are fetched), NAME=FILE (weights of your own), FILE (a checkpoint that says which
            network it is of), hf-hub:ID or local-dir:FOLDER; ours, published or timm's names. Several are compared.
        name: short names for the networks, in order, for tables and reports; by default what was typed.
        data: a folder of class folders or one that `robustvit corrupt` wrote, a .tar file, a CIFAR folder, wds/... or
            hfds/..., or scenes (the embedded data set).
        suite: clean, common15, all19, extra4, noise, blur, weather, digital, patches, imagenet-c, imagenet-a, imagenet-r,
            imagenet-p, cifar10-c, cifar100-c; or corruptions by their names, as fog.
        severity: of the corruptions; numbers that need all five, as mCE, are left out with fewer.
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
        ignore_orientation: take pixels as they are stored, whatever the EXIF tag of cameras says, as published numbers do;
            pictures of imagenet-a, imagenet-r and imagenet-c on disk always are.
        batch_size: pictures at once.
        device: cpu, cuda, cuda:1, mps, ...
        untrained: random weights for networks given by NAME alone (to try things out).
        predictions: also write predictions.csv: the answer to every picture under every condition.
        as_json: print JSON.
    """
    given = {"num_classes": num_classes, "img_size": img_size}
    networks = load_networks(models, untrained, {k: v for k, v in given.items() if v}, device, name)
    how: dict[str, Any] = {
        "class_map": class_map,
        "protocol": protocol,
        "size": img_size,
        "limit": limit,
        "seed": seed,
        "resume": resume,
    }
    how |= {"jpeg": not no_jpeg, "channel_order": "bgr" if bgr else "rgb", "frost_folder": frost_folder}
    how |= {"severity": severity, "predictions": predictions, "ignore_orientation": ignore_orientation}
    results = measure(networks, data, output, {**how, "suite": suite, "batch_size": batch_size})
    if not is_first_process():
        return
    if as_json:
        print_json(results.to_json())
        tell_notes(results, output)
        return
    print_results(results, _summaries(results), _ranking)
    tell_notes(results, output)


def _shown(name: str, value: Value) -> str:
    from robustvit.report.numbers import quantity, quantity_interval

    reach = quantity_interval(name, value)
    return f"{quantity(name, value.value)} ({reach})" if reach else quantity(name, value.value)


def _summaries(results: Results) -> Table:
    from rich.table import Table

    from robustvit.report.comparison import summary_names

    table = Table(header_style="bold", pad_edge=False)
    table.add_column("")
    for model in results.models:
        table.add_column(model.name, justify="right")
    keys = summary_names(results.models)
    rows = [(key.replace("_", " "), [m.summary.get(key) for m in results.models], key) for key in keys]
    for number, measurement in enumerate(results.models[0].measurements):
        suites = f" ({', '.join(measurement.suites)})" if number else ""
        for group in measurement.group_accuracies if len(measurement.group_accuracies) > 1 else ():
            values = [model.measurements[number].group_accuracies.get(group) for model in results.models]
            rows.append((f"mean accuracy, {group}{suites}", values, "mean_accuracy"))
    for label, values, key in rows:
        table.add_row(label, *(_shown(key, value) if value else "" for value in values))
    return table


def _ranking(difference: Difference) -> list[str]:
    """The number that ranks networks in this measurement, if it was measured."""
    from robustvit.metrics.measures import in_ranking_order

    return [measure.key for measure in in_ranking_order() if measure.key in difference.summary][:1]
