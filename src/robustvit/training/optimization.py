"""timm's optimizer and schedule for a run, with the rules for batch size and rate written out."""

from __future__ import annotations

from typing import Any

import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from torch import nn

from robustvit.training.config import OptimizerConfig, ScheduleConfig
from robustvit.training.config_io import ConfigError
from robustvit.training.parameter_groups import parameter_groups

__all__ = ["Schedule", "build_optimizer", "peak_rate", "total_updates"]


def peak_rate(config: OptimizerConfig, batch_size: int) -> float:
    """lr * batch / lr_batch, or lr where no rule is given. `batch_size` counts all processes and micro-batches."""
    return config.lr * batch_size / config.lr_batch if config.lr_batch else config.lr


def build_optimizer(network: nn.Module, config: OptimizerConfig, batch_size: int) -> torch.optim.Optimizer:
    """timm's optimizer; timm also groups the parameters, unless `head_rate` or `no_decay` say otherwise."""
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in config.options.items()}
    rate = peak_rate(config, batch_size)
    is_standard = config.head_rate == 1 and config.no_decay == "timm"
    try:
        return create_optimizer_v2(
            network if is_standard else parameter_groups(network, config, rate),
            opt=config.name,
            lr=rate,
            weight_decay=config.weight_decay,
            layer_decay=config.layer_decay,
            **options,
        )
    except (ValueError, TypeError, AssertionError, IndexError, KeyError, ArithmeticError) as error:
        raise ConfigError(f"timm cannot make the optimizer {config.name!r}: {error}") from error


def total_updates(config: ScheduleConfig, updates_per_epoch: int, most: int) -> int:
    """Updates of the whole run: schedule and cool-down, at most `most` (0 for no limit)."""
    updates = (config.updates or config.epochs * updates_per_epoch) + config.cooldown_epochs * updates_per_epoch
    return min(updates, most) if most else updates


class Schedule:
    """The learning rate as a function of the number of updates done; it has no memory, so nothing of it is saved.

    Args:
        optimizer: whose rate is set; its rate when this is made is the peak.
        config: see `ScheduleConfig`.
        updates_per_epoch: of the run.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, config: ScheduleConfig, updates_per_epoch: int) -> None:
        if config.name == "plateau":
            raise ConfigError("schedule.name is 'plateau', which depends on the past; choose cosine, linear, step, poly, ...")
        self.optimizer, self.updates_per_epoch = optimizer, updates_per_epoch
        self.lag = config.lag_epochs * updates_per_epoch
        self.by_epoch = config.every == "epoch"
        self.warmup_updates, self.warmup_ratio = config.warmup_updates or 0, config.warmup_ratio
        lengths, options = _lengths(config, updates_per_epoch), dict(config.options)
        try:
            self.timm, _ = create_scheduler_v2(
                optimizer,
                config.name,
                warmup_lr=config.warmup_lr,
                min_lr=config.min_lr,
                step_on_epochs=self.by_epoch,
                **lengths,
                **options,
            )
        except (TypeError, ValueError, AssertionError, IndexError, KeyError, ArithmeticError) as error:
            raise ConfigError(f"timm cannot make the schedule {config.name!r}: {error}") from error
        if self.timm is None:
            raise ConfigError(f"schedule.name is {config.name!r}, which timm does not know; choose cosine, step, poly, ...")

    def set(self, updates_done: int) -> float:
        """Sets the rate of the next update and returns that of the first group."""
        updates_done = max(0, updates_done - self.lag)
        if self.by_epoch:
            self.timm.step(updates_done // self.updates_per_epoch)
        else:
            self.timm.step_update(updates_done)
        if updates_done < self.warmup_updates:
            factor = 1 - (1 - updates_done / self.warmup_updates) * (1 - self.warmup_ratio)
            for group in self.optimizer.param_groups:
                group["lr"] *= factor
        return float(self.optimizer.param_groups[0]["lr"])


def _lengths(config: ScheduleConfig, updates_per_epoch: int) -> dict[str, Any]:
    """The lengths of a schedule as timm takes them: in epochs, or in epochs of one update for a schedule given in updates."""
    warmup = config.warmup_epochs if config.warmup_updates is None else 0
    if not config.updates:
        cooldown = config.cooldown_epochs
        return dict(
            num_epochs=config.epochs, warmup_epochs=warmup, cooldown_epochs=cooldown, updates_per_epoch=updates_per_epoch
        )
    warmup, cooldown = round(warmup * updates_per_epoch), config.cooldown_epochs * updates_per_epoch
    if warmup > config.updates:
        raise ConfigError(
            f"schedule.warmup_epochs={config.warmup_epochs} are {warmup} updates, and schedule.updates={config.updates}; give "
            "fewer, or schedule.warmup_updates"
        )
    return dict(num_epochs=config.updates, warmup_epochs=warmup, cooldown_epochs=cooldown, updates_per_epoch=1)
