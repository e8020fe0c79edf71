"""Recipes and changes become a configuration; mistakes are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from refusals import refused

from robustvit.training.config import TrainConfig
from robustvit.training.config_io import (
    ConfigError,
    config_from_dict,
    config_to_dict,
    fingerprint_of,
    load_config,
    load_saved_config,
    save_config,
)


def test_defaults_need_no_recipe() -> None:
    assert load_config() == TrainConfig()


def test_a_run_from_before_there_were_tasks_can_be_resumed(tmp_path: Path) -> None:
    config = TrainConfig()
    save_config(config, tmp_path / "config.yaml")
    lines = (tmp_path / "config.yaml").read_text().splitlines(keepends=True)
    (tmp_path / "config.yaml").write_text("".join(line for line in lines if not line.startswith("task:")))
    assert load_saved_config(tmp_path / "config.yaml") == config
    assert fingerprint_of(config) == "7650a0477072fc53fb6c52b376eb0725"
    assert fingerprint_of(replace(config, task="another")) != fingerprint_of(config)


def test_a_run_from_before_there_were_dense_tasks_can_be_resumed(tmp_path: Path) -> None:
    """What configurations lacked then has the meaning of its default; anything else that is missing is damage."""
    config, path = TrainConfig(), tmp_path / "config.yaml"
    save_config(config, path)
    raw = yaml.safe_load(path.read_text())
    for name in ("crop_size", "base_size", "ratio_range", "cat_max_ratio", "photometric"):
        del raw["augment"][name]
    added = (("schedule", "updates"), ("optimizer", "head_rate"), ("loop", "freeze_batchnorm"), ("loss", "divisor"))
    for section, name in added:
        del raw[section][name]
    path.write_text(yaml.safe_dump(raw))
    assert load_saved_config(path) == config
    del raw["loop"]["sync_batchnorm"]
    path.write_text(yaml.safe_dump(raw))
    with refused(ConfigError, "loop.sync_batchnorm"):
        load_saved_config(path)


def test_a_run_from_before_images_were_mixed_in_groups_and_rates_lagged_can_be_resumed(tmp_path: Path) -> None:
    config, path = load_config(None, ["augment.mixup=0.8", "loop.seed=3"]), tmp_path / "config.yaml"
    save_config(config, path)
    raw = yaml.safe_load(path.read_text())
    del raw["augment"]["mix_group"], raw["schedule"]["lag_epochs"]
    path.write_text(yaml.safe_dump(raw))
    assert load_saved_config(path) == config
    assert fingerprint_of(replace(config, schedule=replace(config.schedule, lag_epochs=1))) != fingerprint_of(config)
    assert fingerprint_of(replace(config, augment=replace(config.augment, mix_group=4))) != fingerprint_of(config)


def test_a_change_wins_over_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("optimizer: {lr: 0.5, weight_decay: 0.1}")
    config = load_config(tmp_path / "r.yaml", ["optimizer.lr=1e-3"])
    assert (config.optimizer.lr, config.optimizer.weight_decay) == (1e-3, 0.1)


def test_a_recipe_extends_another_section_by_section(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("optimizer: {lr: 0.5}\nmodel: {name: rvt_nano, tap: 4}")
    (tmp_path / "r.yaml").write_text("extends: base.yaml\nmodel: {name: fan_vit_nano}")
    config = load_config(tmp_path / "r.yaml")
    assert (config.model.name, config.model.tap, config.optimizer.lr) == ("fan_vit_nano", 4, 0.5)


def test_a_recipe_that_extends_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b.yaml")
    (tmp_path / "b.yaml").write_text("extends: a.yaml")
    with refused(ConfigError, tmp_path / "a.yaml", "extends"):
        load_config(tmp_path / "a.yaml")


def test_the_twin_shrinks_the_recipe_and_changes_win_over_it(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("loop: {batch_size: 1024}\ntwin: {loop: {batch_size: 8}}")
    assert load_config(tmp_path / "r.yaml").loop.batch_size == 1024
    assert load_config(tmp_path / "r.yaml", twin=True).loop.batch_size == 8
    assert load_config(tmp_path / "r.yaml", ["loop.batch_size=4"], twin=True).loop.batch_size == 4


def test_a_recipe_without_a_twin_says_so(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("loop: {batch_size: 8}")
    with refused(ConfigError, tmp_path / "r.yaml", "twin"):
        load_config(tmp_path / "r.yaml", twin=True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("optimizer.lrr=1", ("optimizer.lrr", "mean lr")),
        ("optimiser.lr=1", ("optimiser", "mean optimizer")),
        ("methods.adll={}", ("adll", "mean adl")),
        ("methods.adl.tua=1", ("methods.adl.tua", "mean tau")),
        ("loop.precision=fp8", ("loop.precision", "fp8", "'fp32', 'bf16', 'fp16'")),
        ("loop.batch_size=many", ("loop.batch_size", "'many'", "str", "int")),
        ("loop.compile=1", ("loop.compile", "1", "bool")),
        ("optimizer.lr=fast", ("optimizer.lr", "'fast'", "float")),
        ("augment.scale=[0.1]", ("augment.scale", 1, 2)),
        ("optimizer=3", ("optimizer", 3, "lr, ")),
        ("optimizer.lr", ("optimizer.lr", "name=value")),
        ("methods.distillation={}", ("methods.distillation", "teacher")),
    ],
)
def test_a_wrong_key_or_value_is_named(change: str, named: tuple[object, ...]) -> None:
    with refused(ConfigError, *named):
        load_config(None, [change])


@pytest.mark.parametrize(
    "change",
    [
        "model.drop_path=1",
        "model.img_size=0",
        "data.repeats=0",
        "data.workers=-1",
        "data.train_limit=-5",
        "augment.flip=2",
        "augment.erasing=-0.1",
        "augment.mixup=-1",
        "augment.scale=[1, 0.5]",
        "augment.scale=[0.5, 2]",
        "schedule.warmup_epochs=11",
        "loss.smoothing=2",
        "loss.weight=-1",
        "optimizer.lr=-1",
        "optimizer.clip_grad=-1",
        "optimizer.layer_decay=2",
        "schedule.epochs=0",
        "schedule.cooldown_epochs=-1",
        "loop.batch_size=0",
        "loop.accumulate=0",
        "loop.log_every=0",
        "loop.validate_every=0",
        "loop.max_updates=-1",
        "loop.ema_decay=2",
    ],
)
def test_an_impossible_number_is_named_with_what_is_possible(change: str) -> None:
    name = change.partition("=")[0]
    with refused(ValueError, f"{name}=", "; give "):
        load_config(None, [change])


def test_yes_and_no_may_be_written_as_yaml_reads_them() -> None:
    assert load_config(None, ["data.cache=no"]).data.cache == "no"
    assert load_config(None, ["data.cache=yes"]).data.cache == "yes"


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with refused(FileNotFoundError, tmp_path / "none.yaml"):
        load_config(tmp_path / "none.yaml")


def test_text_that_is_not_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: [1")
    with refused(ConfigError, tmp_path / "r.yaml", "YAML"):
        load_config(tmp_path / "r.yaml")


def test_a_method_is_switched_off_by_null(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("methods: {adl: {tau: 1.0}}")
    assert load_config(tmp_path / "r.yaml").methods["adl"].tau == 1.0
    assert not load_config(tmp_path / "r.yaml", ["methods.adl=null"]).methods


def test_a_saved_configuration_is_the_same_when_read(tmp_path: Path) -> None:
    changes = [
        "methods.adl={tau: 1}",
        "methods.afat.rho=0.2",
        "model.tap=4",
        "model.tap_blocks=[0, 2]",
        "optimizer.options.eps=1e-7",
    ]
    config = load_config(None, changes)
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config
    assert config_from_dict(config_to_dict(config)) == config


def test_validation_takes_the_options_of_the_task() -> None:
    config = load_config(None, ["task=segmentation", "validation={window: [48, 64], flip: true}"])
    assert config.validation == {"window": (48, 64), "flip": True}
    assert config_from_dict(config_to_dict(config)) == config
    with refused(ConfigError, "validation.windo", "window"):
        load_config(None, ["task=segmentation", "validation.windo=[48, 64]"])
    with refused(ConfigError, "validation", "classification"):
        load_config(None, ["validation.window=[48, 64]"])
    with refused(ValueError, "stride=(60, 60)"):
        load_config(None, ["task=segmentation", "validation={window: [48, 48], stride: [60, 60]}"])
