"""`robustvit attack`: how much of the accuracy survives somebody who wants the network to err."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from robustvit.cli.console import note, print_json
from robustvit.cli.measured import measure, print_results, tell_notes
from robustvit.cli.networks import load_networks
from robustvit.runtime.ranks import is_first_process

if TYPE_CHECKING:
    from rich.table import Table

    from robustvit.attacks.attack import Attack
    from robustvit.evaluation.results import ModelResults, Results

__all__ = ["attack"]

NUMBER = tyro.conf.arg(metavar="X or X/255")
COUNT = tyro.conf.arg(metavar="N")
NAMES = {"radius": "limit", "no_random_start": "random_start", "ensemble": "version"}
"""Options of the command that are called otherwise in `robustvit.attacks`."""


@dataclass(frozen=True)
class GradientOptions:
    """Of fgsm (preset, eps), pgd (all) and autoattack (eps). Lengths are in pixel units, 1 being white.

    Attributes:
        preset: fgsm, pgd: rvt (eps 1/255, step 0.5/255, 5 steps, random start), rspc (8/255, 2/255, 5) or rvt-adversarial
            (4/255, 8/255/3, 3); rvt by default. The options below win over it.
        eps: fgsm, pgd, autoattack: largest change of a value, or of the norm; 1/255 by default.
        step: pgd: of one iteration.
        steps: pgd: iterations.
        no_random_start: pgd: begin at the picture.
    """

    preset: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    eps: Annotated[str | None, NUMBER] = None
    step: Annotated[str | None, NUMBER] = None
    steps: Annotated[int | None, COUNT] = None
    no_random_start: bool = False


@dataclass(frozen=True)
class PatchFoolOptions:
    """Of patch-fool.

    Attributes:
        patches: patch-fool: how many; 1 by default.
        select: patch-fool: which patches: those with the most attention (by default), the largest gradient, or any.
        layer: patch-fool: block whose attention selects, from 0; by default 4, or the last of networks with fewer.
        attention_weight: patch-fool: of the attention beside the loss; 0.002 by default, 0 leaves it out.
        projection: patch-fool: of the attention's gradient where it is against the loss: textbook (by default), or as
            published.
        iterations: patch-fool: 250 by default.
        lr: patch-fool: 0.22 by default, in units of std.
        constraint: patch-fool: any content of the patches (none, by default), or within the radius: every value (linf), every
            channel (l2).
        radius: patch-fool: of the constraint, in pixel units.
        pixels: patch-fool: change only that many pixels of the patches; all by default.
        pixel_choice: patch-fool: which pixels: learned (by default) or random.
    """

    patches: Annotated[int | None, COUNT] = None
    select: Annotated[str | None, tyro.conf.arg(metavar="attention|saliency|random")] = None
    layer: Annotated[int | None, COUNT] = None
    attention_weight: Annotated[float | None, tyro.conf.arg(metavar="X")] = None
    projection: Annotated[str | None, tyro.conf.arg(metavar="textbook|published")] = None
    iterations: Annotated[int | None, COUNT] = None
    lr: Annotated[float | None, tyro.conf.arg(metavar="X")] = None
    constraint: Annotated[str | None, tyro.conf.arg(metavar="none|linf|l2")] = None
    radius: Annotated[str | None, NUMBER] = None
    pixels: Annotated[int | None, COUNT] = None
    pixel_choice: Annotated[str | None, tyro.conf.arg(metavar="learned|random")] = None


@dataclass(frozen=True)
class PatchOptions:
    """Of patches-random and patches-adversarial.

    Attributes:
        rho: patches-random, patches-adversarial: share of the patches to cover; 0.1 by default.
        patch_size: likewise: side in pixels; by default that of the tokens, 16 for networks without.
        noise: likewise: what covers a patch; unit_normalised by default, zero drops it.
        masks: patches-random: how many choices of patches; 3 by default.
        corruption_model: patches-adversarial: folder of a run with AFAT, or a checkpoint of it, whose corruption network
            chooses. Without it, one is fitted to the network on these pictures.
        fit_steps: patches-adversarial: of that fitting; 200 by default.
    """

    rho: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = None
    patch_size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None
    noise: Annotated[str | None, tyro.conf.arg(metavar="unit_normalised|pixel_uniform|zero")] = None
    masks: Annotated[int | None, COUNT] = None
    corruption_model: Annotated[str | None, tyro.conf.arg(metavar="RUN")] = None
    fit_steps: Annotated[int | None, COUNT] = None


@dataclass(frozen=True)
class AutoAttackOptions:
    """Of autoattack (pip install 'robustvit[attack]').

    Attributes:
        norm: autoattack: of the change; Linf by default.
        ensemble: autoattack: standard (by default) or plus.
        parts: autoattack: its attacks themselves, instead: apgd-ce, apgd-dlr, apgd-t, fab, fab-t, square.
        group: autoattack: pictures at once; 1 by default, so that what happens to a picture depends on it alone. More are
            faster on a GPU.
    """

    norm: Annotated[str | None, tyro.conf.arg(metavar="Linf|L2|L1")] = None
    ensemble: Annotated[str | None, tyro.conf.arg(metavar="standard|plus")] = None
    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ()
    group: Annotated[int | None, COUNT] = None


def attack(
    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL [MODEL ...]")],
    *,
    data: Annotated[str, tyro.conf.arg(metavar="PATH")],
    attack: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")],
    gradient: Annotated[GradientOptions, tyro.conf.arg(name="")] = GradientOptions(),  # noqa: B008
    patch_fool: Annotated[PatchFoolOptions, tyro.conf.arg(name="")] = PatchFoolOptions(),  # noqa: B008
    covered: Annotated[PatchOptions, tyro.conf.arg(name="")] = PatchOptions(),  # noqa: B008
    autoattack: Annotated[AutoAttackOptions, tyro.conf.arg(name="")] = AutoAttackOptions(),  # noqa: B008
    name: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT [TEXT ...]")] = (),
    suite: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("clean",),
    severity: Annotated[tuple[int, ...], tyro.conf.arg(metavar="S [S ...]")] = (1, 2, 3, 4, 5),
    output: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("out"),
    resume: bool = False,
    limit: Annotated[int | None, COUNT] = None,
    class_map: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    num_classes: Annotated[int | None, tyro.conf.arg(metavar="K")] = None,
    protocol: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    img_size: Annotated[tuple[int, int] | None, tyro.conf.arg(metavar="H W")] = None,
    seed: int = 0,
    ignore_orientation: bool = False,
    batch_size: Annotated[int, tyro.conf.arg(metavar="B")] = 32,
    device: str = "cpu",
    untrained: bool = False,
    predictions: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Measure how much of a classifier's accuracy survives attacks on its pictures.

    Args:
        models: NAME (published weights are fetched), NAME=FILE, FILE, hf-hub:ID or local-dir:FOLDER, as for eval. Several are
            compared.
        name: short names for the networks, in order, for tables and reports; by default what was typed.
        data: pictures, as for eval: a folder of class folders, a .tar file, scenes, ...
        attack: fgsm, pgd, patch-fool, patches-random, patches-adversarial, autoattack.
        suite: what else to measure, as for eval.
        severity: of the corruptions of these suites.
        output: folder for results.json, results.csv and report.html.
        resume: go on with an interrupted run in the output folder; a finished one is shown again.
        limit: attack only that many pictures, drawn by the seed.
        class_map: JSON file from class names to outputs, where they are not in the same order.
        num_classes: outputs of the classifier; by default those of the weights.
        protocol: how pictures become the input: model, imagenet-c, crop, squash or none.
        img_size: height and width of the input; by default the network's.
        seed: of attacks, corruptions, subset and intervals.
        ignore_orientation: take pixels as they are stored, whatever the EXIF tag of cameras says.
        batch_size: pictures at once.
        device: cpu, cuda, cuda:1, mps, ...
        untrained: random weights for networks given by NAME alone (to try things out).
        predictions: also write predictions.csv: the answer to every picture, clean and attacked.
        as_json: print JSON.
    """
    attacks = _build(attack, dict(_given(gradient, patch_fool, covered, autoattack)))
    options = {"num_classes": num_classes, "img_size": img_size}
    networks = load_networks(models, untrained, {k: v for k, v in options.items() if v}, device, name)
    how: dict[str, Any] = {
        "class_map": class_map,
        "protocol": protocol,
        "size": img_size,
        "limit": limit,
        "seed": seed,
        "resume": resume,
    }
    how |= {"severity": severity, "predictions": predictions, "ignore_orientation": ignore_orientation}
    results = measure(networks, data, output, {**how, "suite": suite, "attacks": attacks, "batch_size": batch_size})
    if not is_first_process():
        return
    if as_json:
        print_json(results.to_json())
        tell_notes(results, output)
        return
    print_results(results, _accuracies(results), lambda difference: list(difference.summary))
    tell_notes(results, output)


def _given(*groups: Any) -> Iterator[tuple[str, Any]]:
    """(option, value) of what was typed."""
    for group in groups:
        for option in fields(group):
            value = getattr(group, option.name)
            if value is None or value is False or value == ():
                continue
            if option.name in ("eps", "step", "radius"):
                value = _number(option.name, value)
            yield option.name, False if option.name == "no_random_start" else value


def _number(option: str, text: str) -> float:
    """ "8/255" or "0.03"."""
    top, _, bottom = text.partition("/")
    try:
        return float(top) / float(bottom or 1)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"--{option} {text} is no number; give one such as 0.0157 or 4/255") from None


def _build(names: Sequence[str], given: dict[str, Any]) -> list[Attack]:
    from robustvit.attacks.registry import ATTACKS, build_attack, options_of

    if not names:
        raise ValueError(f"there is no attack to make; give --attack with one or several of {', '.join(ATTACKS)}")
    built = []
    for name in names:
        known = options_of(name) if name in ATTACKS else ()
        built.append(build_attack(name, {NAMES.get(o, o): v for o, v in given.items() if NAMES.get(o, o) in known}))
    for option in given:
        owners = [name for name in ATTACKS if NAMES.get(option, option) in options_of(name)]
        if not set(owners) & set(names):
            raise ValueError(
                f"--{option.replace('_', '-')} belongs to {' and '.join(owners)}, and the attack is {', '.join(names)}; leave "
                f"it out, or add that to --attack"
            )
    for settings in (made.describe() for made in built if made.name == "pgd"):
        if settings["step"] * settings["steps"] < settings["eps"] * (1 - 1e-6):
            reach = f"{255 * settings['step'] * settings['steps']:.3g}/255 of {255 * settings['eps']:.3g}/255"
            note(f"{settings['steps']} steps of PGD reach {reach} from the start; --steps and --step change that")
    return built


def _accuracies(results: Results) -> Table:
    from rich.table import Table

    from robustvit.report.comparison import summary_names
    from robustvit.report.numbers import quantity, quantity_interval

    table = Table(header_style="bold", pad_edge=False)
    for heading in ("network", "number", "accuracy", "95 % interval", "largest change", "L2 norm", "changed pixels"):
        table.add_column(heading, justify="left" if heading in ("network", "number") else "right")
    for model in results.models:
        for place, key in enumerate(summary_names([model])):
            value = model.summary[key]
            numbers = (quantity(key, value.value), quantity_interval(key, value))
            cells = (key.replace("_", " "), *numbers, *_perturbation(model, key))
            table.add_row("" if place else model.name, *cells)
        table.add_section()
    return table


def _perturbation(model: ModelResults, key: str) -> tuple[str, str, str]:
    """Of the attack whose accuracy this is, the mean over its rows."""
    from robustvit.report.attacks import mean_changes

    name = key.removesuffix("_accuracy").replace("_", "-")
    changes = mean_changes(model, name) if key.endswith("_accuracy") else None
    if changes is None:
        return "", "", ""
    return f"{255 * changes[0]:.1f}/255", f"{changes[1]:.2f}", f"{changes[2]:.1%}"
