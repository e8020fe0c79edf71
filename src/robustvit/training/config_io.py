"""Recipes: YAML files and `name=value` changes into a `TrainConfig`, and back.

A recipe has the fields of `TrainConfig`. `extends: base.yaml` (beside the recipe, or of the package) gives what it leaves out;
`twin:` holds the changes that shrink it to a run of seconds on a CPU. An unknown key is an error that names the nearest known
one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union

import yaml

from robustvit.methods.registry import METHODS, method_config
from robustvit.runtime.bounded_yaml import YamlTextError, read_yaml
from robustvit.runtime.files import write_whole
from robustvit.runtime.spelling import nearest
from robustvit.tasks.options import TASK_OPTIONS
from robustvit.training.config import TrainConfig
from robustvit.training.recipes import find_recipe

__all__ = ["ConfigError", "config_from_dict", "config_to_dict", "load_config", "load_saved_config", "save_config"]


class ConfigError(ValueError):
    """A recipe or a `--set` that cannot be understood."""


def load_config(recipe: str | Path | None = None, changes: Sequence[str] = (), *, twin: bool = False) -> TrainConfig:
    """The configuration of a recipe, with changes.

    Args:
        recipe: YAML file, or the name of a recipe of the package (`fan/vit_tiny`); None for the defaults.
        changes: "optimizer.lr=1e-3"; values are YAML. `methods.adl={}` switches a method on, `methods.adl=null` off;
            `model.options=null` forgets all options.
        twin: apply the recipe's `twin:` before the changes.

    Raises:
        ConfigError: a key or a value is not known; the message says which and what is near.
    """
    raw = _read(find_recipe(recipe)) if recipe is not None else {}
    small = raw.pop("twin", None)
    if twin:
        if not small:
            if recipe is None:
                raise ConfigError("--twin needs a recipe, whose `twin:` makes it small; the default run is small already")
            raise ConfigError(f"{recipe} has no `twin:`, the changes that make it small; add them, or leave --twin out")
        if not isinstance(small, Mapping):
            raise ConfigError(f"{recipe}: twin is {small!r}; expected sections, as in `twin: {{schedule: {{epochs: 1}}}}`")
        raw = _merged(raw, small)
    for change in changes:
        raw = _merged(raw, _parse_change(change))
    return config_from_dict(raw)


def load_saved_config(path: Path, changes: Sequence[str] = ()) -> TrainConfig:
    """The configuration that `save_config` wrote, with changes.

    Raises:
        ConfigError: it is not whole; what is missing would have its default, which the run did not have.
    """
    advice = "give the recipe of the run again, with --resume: its checkpoints know whether it is the same"
    try:
        raw = _read(path)
        whole = _flat(config_to_dict(config_from_dict(raw)))
    except ConfigError as error:
        raise ConfigError(f"{path} is damaged ({' '.join(str(error).split())}); {advice}") from error
    if lacking := [key for key in whole if key not in _flat(raw) and key not in ADDED]:
        raise ConfigError(f"{path} lacks {lacking[0]}: it is damaged, or of another version; {advice}")
    return load_config(path, changes)


def config_from_dict(raw: Mapping[str, Any]) -> TrainConfig:
    """A configuration from nested dictionaries; what is missing has its default."""
    return _build(TrainConfig, raw, "")


def config_to_dict(config: TrainConfig) -> dict[str, Any]:
    """The whole configuration as nested dictionaries of plain values, which `config_from_dict` takes."""
    return _plain(config)


def save_config(config: TrainConfig, path: Path) -> None:
    """Writes the resolved configuration as a recipe."""
    with write_whole(path) as file:
        file.write_text(yaml.safe_dump(config_to_dict(config), sort_keys=False), encoding="utf-8")


def _read(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    if path.resolve() in seen:
        raise ConfigError(f"{path} extends itself, through {' and '.join(p.name for p in seen)}")
    try:
        raw = read_yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error
    if not isinstance(raw, dict | None):
        raise ConfigError(f"{path} holds a {type(raw).__name__}; expected sections as in `optimizer: {{lr: 1.0e-3}}`")
    raw = raw or {}
    base = raw.pop("extends", None)
    if not isinstance(base, str | None):
        raise ConfigError(f"{path}: extends is {base!r}; expected the name of a recipe, as in `extends: base.yaml`")
    return _merged(_read(find_recipe(base, path.parent), (*seen, path.resolve())), raw) if base else raw


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, section by section."""
    out = dict(below)
    for key, value in above.items():
        both_sections = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merged(out[key], value) if both_sections else value
    return out


def _parse_change(change: str) -> dict[str, Any]:
    path, equals, text = change.partition("=")
    if not equals or not path:
        raise ConfigError(f"{change!r} changes nothing; write name=value, as in optimizer.lr=1e-3")
    try:
        value = read_yaml(text) if text else ""
    except YamlTextError as error:
        raise ConfigError(f"the value of {change!r} is not YAML: {error}") from error
    nested: Any = value
    for key in reversed(path.split(".")):
        nested = {key: nested}
    return nested


FREE = ("data.workers", "data.cache", "loop.keep", "loop.tensorboard", "loop.max_updates", "loop.device")
"""What a resumed run may change: the weights do not depend on it, up to the arithmetic of another device. A run that ended at
`max_updates` has a validation there, and a line of the log."""


ADDED: dict[str, Any] = {
    "task": "classification",
    "model.crop_pct": None,
    "model.interpolation": None,
    "augment.crop_size": None,
    "augment.base_size": None,
    "augment.ratio_range": [0.5, 2.0],
    "augment.cat_max_ratio": 0.75,
    "augment.short_sides": [480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800],
    "augment.long_side": 1333,
    "augment.first_short_sides": [400, 500, 600],
    "augment.crop_range": [384, 600],
    "augment.photometric": False,
    "augment.mix_group": 0,
    "loss.divisor": "all",
    "optimizer.no_decay": "timm",
    "optimizer.head_rate": 1.0,
    "schedule.updates": 0,
    "schedule.warmup_updates": None,
    "schedule.warmup_ratio": 1e-6,
    "schedule.lag_epochs": 0,
    "loop.freeze_batchnorm": "auto",
    "loop.validate_updates": 0,
    "validation": {},
}
"""What configurations did not have at first, with what they meant; runs of that time can still be resumed."""


def changed_settings(then: TrainConfig, now: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Settings that differ and must not in a resumed run: dotted name -> (then, now)."""
    old, new = _flat(config_to_dict(then)), _flat(config_to_dict(now))
    return {key: (old.get(key), new.get(key)) for key in {**new, **old} if old.get(key) != new.get(key) and key not in FREE}


def fingerprint_of(config: TrainConfig) -> str:
    """The same for configurations between which a run may change when it is resumed."""
    settings = _flat(config_to_dict(config)).items()
    bound = {key: value for key, value in settings if key not in FREE and (key, value) not in ADDED.items()}
    return hashlib.blake2b(json.dumps(bound, sort_keys=True).encode(), digest_size=16).hexdigest()


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        inner = _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else {f"{prefix}{key}": value}
        flat.update(inner)
    return flat


def _build(cls: type[Any], raw: Any, where: str) -> Any:
    """A dataclass from a mapping of its fields."""
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{where or 'the recipe'} is {raw!r}; expected a section with {', '.join(_fields(cls))}")
    if unknown := [key for key in raw if key not in _fields(cls)]:
        path = f"{where}.{unknown[0]}" if where else str(unknown[0])
        hint = nearest(str(unknown[0]), _fields(cls)) or f"; known here: {', '.join(_fields(cls))}"
        raise ConfigError(f"{path} is not known{hint}")
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in raw.items():
        path = f"{where}.{key}" if where else key
        if cls is TrainConfig and key == "methods":
            values[key] = _methods(value)
        elif cls is TrainConfig and key == "validation":
            values[key] = _task_options(value, raw.get("task", TrainConfig.task))
        else:
            values[key] = _coerced(value, hints[key], path)
    missing = [
        f.name
        for f in dataclasses.fields(cls)
        if f.name not in values and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where} lacks {' and '.join(missing)}; give {where}.{missing[0]}=...")
    return cls(**values)


def _methods(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise ConfigError(f"methods is {raw!r}; expected names with their options, as in methods: {{adl: {{tau: 2.0}}}}")
    if unknown := [name for name in raw if name not in METHODS]:
        raise ConfigError(f"there is no method {unknown[0]!r}{nearest(str(unknown[0]), METHODS)}; known: {', '.join(METHODS)}")
    return {
        name: _build(method_config(name), options, f"methods.{name}") for name, options in raw.items() if options is not None
    }


def _task_options(raw: Any, task: Any) -> dict[str, Any]:
    """The options of a task that a recipe gives, checked as its dataclass does."""
    if not raw:
        return {}
    if task not in TASK_OPTIONS:
        raise ConfigError(f"validation is {_shortened(raw)}, and {task} has no options; leave it out")
    try:
        built = _build(TASK_OPTIONS[task], raw, "validation")
    except ConfigError as error:
        raise ConfigError(f"{error} (of task={task})") from error
    return {name: getattr(built, name) for name in raw}


def _coerced(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type of its field, or ConfigError."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type[Any], hint), value, where)
    if origin in (Union, types.UnionType):
        return _first_fit(value, arguments, hint, where)
    if origin is Literal:
        if isinstance(value, bool) and "yes" in arguments:  # YAML reads them so
            value = "yes" if value else "no"
        if value not in arguments:
            raise ConfigError(f"{where} is {value!r}; choose one of {', '.join(map(repr, arguments))}")
        return value
    if origin is tuple and isinstance(value, list | tuple):
        return _tuple(value, arguments, where)
    if hint is float and isinstance(value, int | float | str) and not isinstance(value, bool):  # YAML reads 1e-3 as text
        try:
            return float(value)
        except (ValueError, OverflowError):
            raise _wrong(value, hint, where) from None
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping | None):
        return {name: option for name, option in (value or {}).items() if option is not None}
    if hint is Any or (isinstance(hint, type) and type(value) is hint) or (hint is type(None) and value is None):
        return value
    raise _wrong(value, hint, where)


def _first_fit(value: Any, hints: Sequence[Any], whole: Any, where: str) -> Any:
    exact = [hint for hint in hints if isinstance(hint, type) and type(value) is hint]  # 4 is a number before it is a text
    for hint in (*exact, *hints):
        try:
            return _coerced(value, hint, where)
        except ConfigError:
            continue
    raise _wrong(value, whole, where)


def _tuple(values: Sequence[Any], arguments: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_coerced(value, arguments[0], where) for value in values)
    if len(values) != len(arguments):
        raise ConfigError(f"{where} has {len(values)} values; expected {len(arguments)}")
    return tuple(_coerced(value, hint, where) for value, hint in zip(values, arguments, strict=True))


def _wrong(value: Any, hint: Any, where: str) -> ConfigError:
    name = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    return ConfigError(f"{where} is {_shortened(value)} ({type(value).__name__}); expected {name}")


def _shortened(value: Any) -> str:
    """A value for a message, not longer than a line."""
    if isinstance(value, int) and abs(value) >= 10**80:
        return "a number of many digits"  # which Python does not even print
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _fields(cls: type[Any]) -> list[str]:
    return [f.name for f in dataclasses.fields(cls)]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value
