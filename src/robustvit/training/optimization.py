"""timm's optimizer and schedule for a run, with the rules for batch size and rate written out."""

from __future__ import annotations

from typing import Any

import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from torch import nn

from robustvit.training.config import OptimizerConfig, ScheduleConfig
from robustvit.training.config_io import ConfigError

__all__ = ["Schedule", "build_optimizer", "peak_rate", "total_updates"]


def peak_rate(config: OptimizerConfig, batch_size: int) -> float:
    """lr * batch / lr_batch, or lr where no rule is given. `batch_size` counts all processes and micro-batches."""
    return config.lr * batch_size / config.lr_batch if config.lr_batch else config.lr


def build_optimizer(network: nn.Module, config: OptimizerConfig, batch_size: int) -> torch.optim.Optimizer:
    """timm's optimizer: no decay on biases, norms and what `no_weight_decay` names."""
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in config.options.items()}
    try:
        return create_optimizer_v2(
            network,
            opt=config.name,
            lr=peak_rate(config, batch_size),
            weight_decay=config.weight_decay,
            layer_decay=config.layer_decay,
            **options,
        )
    except (ValueError, TypeError, AssertionError, IndexError, KeyError, ArithmeticError) as error:
        raise ConfigError(f"timm cannot make the optimizer {config.name!r}: {error}") from error


def total_updates(config: ScheduleConfig, updates_per_epoch: int, most: int) -> int:
    """Updates of the whole run: schedule and cool-down, at most `most` (0 for no limit)."""
    updates = (config.epochs + config.cooldown_epochs) * updates_per_epoch
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
        self.by_epoch = config.every == "epoch"
        options: dict[str, Any] = dict(config.options)
        try:
            self.timm, _ = create_scheduler_v2(
                optimizer,
                config.name,
                num_epochs=config.epochs,
                warmup_epochs=config.warmup_epochs,
                warmup_lr=config.warmup_lr,
                min_lr=config.min_lr,
                cooldown_epochs=config.cooldown_epochs,
                step_on_epochs=self.by_epoch,
                updates_per_epoch=updates_per_epoch,
                **options,
            )
        except (TypeError, ValueError, AssertionError, IndexError, KeyError, ArithmeticError) as error:
            raise ConfigError(f"timm cannot make the schedule {config.name!r}: {error}") from error
        if self.timm is None:
            raise ConfigError(f"schedule.name is {config.name!r}, which timm does not know; choose cosine, step, poly, ...")

    def set(self, updates_done: int) -> float:
        """Sets the rate of the next update and returns that of the first group."""
        if self.by_epoch:
            self.timm.step(updates_done // self.updates_per_epoch)
        else:
            self.timm.step_update(updates_done)
        return float(self.optimizer.param_groups[0]["lr"])
