"""Which passes the suites that were asked for need. Everything that can be wrong is found here, before the work starts."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from robustvit.data.samples import UnreadablePictureError
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.suites.in_memory import plan_in_memory
from robustvit.evaluation.suites.registry import check_suites
from robustvit.evaluation.suites.suite import Suite
from robustvit.models.functions import FunctionNetwork

__all__ = ["plan"]

TRIED = 8
"""Samples to look at before the work starts, until one fits."""


def plan(network: nn.Module, settings: Settings) -> list[Pass]:
    """The passes of one network.

    Args:
        network: to be measured.
        settings: what to measure.

    Raises:
        ValueError: an unknown suite, or one of another task; attacks on a function; predictions that do not fit into a table;
            files that are missing
            (LayoutError); classes that do not match (ClassMismatchError); images that the network cannot take.
    """
    task, asked = settings.task, check_suites(settings.suites, settings.severities)
    if foreign := [suite for suite in asked if suite.tasks and task.name not in suite.tasks]:
        raise ValueError(f"the suite {foreign[0].name} is for {' and '.join(foreign[0].tasks)}, not for {task.name}")
    if settings.attacks and isinstance(network, FunctionNetwork):
        raise ValueError(f"attacks need gradients, which the function {network.extra_repr()} does not give; leave them out")
    if settings.predictions and task.prediction_table is None:
        raise ValueError(f"{task.name} has no table of predictions; leave --predictions out")
    together = [suite for suite in asked if suite.shares_pass(settings)]
    passes = plan_in_memory(network, settings, together) if together or settings.attacks else []
    passes += [first.plan_with(others, network, settings) for first, *others in _groups(asked, together)]
    for planned in passes:
        if planned.is_of_images:
            _try_samples(planned)
    _check_used(settings, passes)
    return passes


def _groups(asked: Sequence[Suite], left_out: Sequence[Suite]) -> list[list[Suite]]:
    """The suites besides `left_out`, those of one pass together."""
    groups: list[list[Suite]] = []
    for suite in asked:
        if suite in left_out:
            continue
        group = next((group for group in groups if group[0].joins(suite)), None)
        if group is None:
            groups.append([suite])
        else:
            group.append(suite)
    return groups


def _check_used(settings: Settings, passes: Sequence[Pass]) -> None:
    """Raises ValueError for options that no pass uses."""
    protocols = {planned.protocol.name for planned in passes}
    for flag, value, used_by in (
        ("--crop-pct (crop_pct)", settings.crop_pct, {"model"}),
        ("--interpolation (interpolation)", settings.interpolation, {"model", "squash"}),
    ):
        if value is not None and not protocols & used_by:
            raise ValueError(
                f"{flag} is for the protocol {' or '.join(sorted(used_by))}, and images become the input by "
                f"{' and '.join(sorted(protocols))} here; leave it out, or give --protocol model"
            )
    made = [planned.describe_corruption() for planned in passes]
    if settings.channel_order != Settings.channel_order and not any("channel_order" in about for about in made):
        raise ValueError("--bgr (channel_order) is about corruptions that are made in memory, and none are; leave it out")
    if settings.frost_folder is not None and not any("frost" in about for about in made):
        raise ValueError("--frost-folder (frost_folder) is about frost made in memory, and none is; leave it out")


def _try_samples(planned: Pass) -> None:
    """Looks for one image that the protocol takes, so that a run over thousands that do not fit never starts."""
    problem = "?"
    for sample, _ in zip(planned.samples, range(TRIED), strict=False):
        try:
            planned.protocol.apply(sample.open())
            return
        except UnreadablePictureError:
            return  # it is counted and named; the next ones may be all right
        except ValueError as error:
            problem = f"{sample.id}: {error}"
    raise ValueError(
        f"the images of {planned.samples.name} do not fit the protocol {planned.protocol.name!r} of "
        f"{', '.join(planned.suite_names)} ({problem}); give --protocol model, which resizes them, or another size"
    )
