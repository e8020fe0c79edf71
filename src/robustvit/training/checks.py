"""Settings that would do nothing, or fail later: found before network and data are opened."""

from __future__ import annotations

from robustvit.methods.registry import METHODS, method_config
from robustvit.tasks.registry import task_named
from robustvit.training.config import SCENE_CROPS, TrainConfig
from robustvit.training.config_io import ConfigError

__all__ = ["check_combination"]


def check_combination(config: TrainConfig) -> None:
    """Asks the task and every method whether they can work in this run.

    Raises:
        ConfigError: two settings do not go together; the message names both.
    """
    try:
        task_named(config.task).with_options(**config.validation).with_divisor(config.loss.divisor).check(config)
    except ValueError as error:
        raise ConfigError(f"task={config.task}: {error}") from error
    if not task_named(config.task).is_dense:
        if config.augment.crop in SCENE_CROPS:
            raise ConfigError(
                f"augment.crop={config.augment.crop} is for label maps and boxes, and {config.task} has none; give another one"
            )
        if config.augment.crop_size is not None:
            raise ConfigError(f"augment.crop_size is for dense tasks; the size of {config.task} is model.img_size")
    for name in ("crop_pct", "interpolation") if task_named(config.task).protocol else ():
        if getattr(config.model, name) is not None:
            raise ConfigError(f"model.{name} is for classifiers; {config.task} validates on whole images: leave it out")
    if not config.loss.weight and not config.methods:
        raise ConfigError("loss.weight=0 leaves no loss to train with; give it a weight, or a method")
    for name, method in config.methods.items():
        try:
            method.check(config)
        except ValueError as error:
            raise ConfigError(f"methods.{name}: {error}") from error
    if config.model.token_head and not any(method.needs.token_logits for method in config.methods.values()):
        able = " or ".join(f"methods.{name}" for name in METHODS if method_config(name).trains_token_head)
        raise ConfigError(f"model.token_head is on, but no method trains it; add {able}, or leave it out")
