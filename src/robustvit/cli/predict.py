"""`robustvit predict`: what a network says about an image, a folder of images or a film."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from robustvit.cli.console import going_on, note, note_untrained, print_json, progress_bar, tables
from robustvit.cli.networks import load_networks
from robustvit.cli.task_flags import check_flags, flags_class, form_of, task_of
from robustvit.runtime.precision import Precision
from robustvit.runtime.ranks import is_first_process
from robustvit.tasks.options import PREDICTION_FORMS, TASK_OPTIONS

if TYPE_CHECKING:
    from rich.table import Table

    from robustvit.predicting.result import Predicted

    class TaskFlags:
        """Made from the options of the tasks, below."""


__all__ = ["predict"]

SHOWN = 10
"""Classes in the summary."""


def predict(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")],
    *,
    images: Annotated[str, tyro.conf.arg(metavar="PATH")],
    output: Annotated[Path, tyro.conf.arg(metavar="FOLDER")],
    corruption: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    severity: Annotated[Literal[1, 2, 3, 4, 5] | None, tyro.conf.arg(metavar="S")] = None,
    seed: int = 0,
    bgr: bool = False,
    frost_folder: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    resume: bool = False,
    limit: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    split: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    task: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    num_classes: Annotated[int | None, tyro.conf.arg(metavar="K")] = None,
    protocol: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    img_size: Annotated[tuple[int, int] | None, tyro.conf.arg(metavar="H W")] = None,
    ignore_orientation: bool = False,
    batch_size: Annotated[int, tyro.conf.arg(metavar="B")] = 4,
    precision: Precision = "fp32",
    device: str = "cpu",
    untrained: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    flags: Annotated[TaskFlags, tyro.conf.arg(name="")],
) -> None:
    """Write what a network says about images: label maps of a segmenter, objects of a detector, answers of a classifier.

    Args:
        model: NAME, NAME=FILE, FILE, hf-hub:ID or local-dir:FOLDER, as for eval.
        images: an image, a folder (with all images below it), a film (.mp4, .avi, .mov, ...), or a dataset as for eval.
        output: folder for the files: predictions.csv, predictions.json and, of a segmenter, labels/, overlays/ and legend.png;
            of a detector, overlays/, legend.png and detections.json; of a film, predictions.mp4 in place of overlays/.
        corruption: predict the images under this corruption too, such as fog, and show both side by side in comparisons/; of a
            segmenter, the label maps are in labels-corrupted/, of a detector, the objects in detections-corrupted.json.
        severity: of the corruption, 1 to 5; 3 by default.
        seed: of the corruption.
        bgr: swap red and blue for the corruption, as the published Cityscapes-C and COCO-C do.
        frost_folder: photographs for frost instead of generated textures.
        resume: continue an interrupted run in the output folder; a finished one is shown again.
        limit: only the first so many images, or frames.
        split: part of a dataset, such as test of Cityscapes, ACDC or COCO; by default what can be measured.
        task: what the network is for; by default classification, or what the network says itself.
        num_classes: outputs of the network; by default those of the weights.
        protocol: preprocessing, as for eval; by default that of the network. Segmenters and detectors see images at their own
            size.
        img_size: height and width of the input; by default the network's.
        ignore_orientation: take pixels as stored, ignoring the EXIF tag of cameras.
        batch_size: images per batch.
        precision: in which the network computes, as for eval.
        device: cpu, cuda, cuda:1, mps, ...
        untrained: allow random weights for a network given by NAME alone (to try things out).
        as_json: print JSON.
    """
    _check(corruption, severity, bgr, frost_folder)
    check_flags(flags, task)
    given = {"num_classes": num_classes, "img_size": img_size}
    ((name, network),) = load_networks([model], untrained, {k: v for k, v in given.items() if v}, device).items()
    chosen = task_of(flags, task, [network])
    how: dict[str, Any] = dict(corruption=corruption, severity=severity or 3, seed=seed, frost_folder=frost_folder)
    how |= dict(limit=limit, split=split, protocol=protocol, size=img_size, ignore_orientation=ignore_orientation)
    how |= dict(
        batch_size=batch_size,
        precision=precision,
        resume=resume,
        channel_order="bgr" if bgr else "rgb",
        form=form_of(flags, chosen),
    )
    predicted = _predict(network, images, output, {**how, "name": name, "task": chosen})
    if not is_first_process():
        return
    if as_json:
        print_json(predicted.to_json())
    else:
        tables().print(_shares(predicted))
    _tell(predicted, output)


def _check(corruption: str | None, severity: int | None, bgr: bool, frost_folder: Path | None) -> None:
    given = {"--severity": severity is not None, "--bgr": bgr, "--frost-folder": frost_folder is not None}
    if corruption is None and (alone := [flag for flag, is_given in given.items() if is_given]):
        raise ValueError(f"{alone[0]} is of a corruption, and there is none; add --corruption, such as fog")


def _predict(network: Any, images: str, output: Path, how: dict[str, Any]) -> Predicted:
    """`predict` with its progress on stderr; an interruption says how to resume."""
    from robustvit.predicting.predict import predict as run

    advice = f"finished work is kept in {output}; run the same command with --resume to continue"
    with going_on(advice), progress_bar() as report:
        return run(network, images, output, report=report, **how)


def _shares(predicted: Predicted) -> Table:
    """How much each class has, the largest first."""
    from rich.table import Table

    conditions = list(predicted.shares)
    table = Table(header_style="bold", pad_edge=False)
    table.add_column("class")
    for condition in conditions:
        table.add_column(f"{predicted.counted}, {condition}" if len(conditions) > 1 else predicted.counted, justify="right")
    largest = {name: max(shares[name] for shares in predicted.shares.values()) for name in predicted.shares[conditions[0]]}
    ranked = [name for name in sorted(largest, key=lambda name: -largest[name]) if largest[name] > 0]
    for name in ranked[:SHOWN]:
        table.add_row(name, *(_percent(predicted.shares[condition][name]) for condition in conditions))
    if len(ranked) > SHOWN:
        rest = (sum(predicted.shares[condition][name] for name in ranked[SHOWN:]) for condition in conditions)
        table.add_row(f"{len(ranked) - SHOWN} more", *map(_percent, rest))
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _tell(predicted: Predicted, output: Path) -> None:
    from robustvit.predicting.destinations import LEGEND

    count, kind = predicted.images["predicted"], predicted.images.get("kind", "images")
    if predicted.network["is_untrained"]:
        note_untrained([predicted.network["name"]])
    for name, reason in predicted.skipped[:SHOWN]:
        note(f"{name} could not be predicted: {reason}")
    if len(predicted.skipped) > SHOWN:
        note(f"{len(predicted.skipped)} {kind} could not be predicted; predictions.json names them")
    protocol = predicted.protocol
    if protocol.get("changed") is not None:
        note(
            f"computed in {protocol['precision']}: {_percent(protocol['changed'])} of the predictions for the first "
            f"{protocol['checked_images']} {kind} differ from those in fp32, and the share of a class by "
            f"{_percent(protocol['share_change'])} at most"
        )
    files = ", ".join(f"{file} (the colours of the classes)" if file == LEGEND else file for file in predicted.files)
    note(f"{count} {kind.removesuffix('s') if count == 1 else kind} predicted: {files} in {output}")


if not TYPE_CHECKING:
    TaskFlags = flags_class([TASK_OPTIONS, PREDICTION_FORMS], inspect.signature(predict).parameters)
