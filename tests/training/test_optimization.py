"""Learning rates are those of the published dense recipes; the length of a run may be given in updates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refused
from torch import nn

from robustvit.training.config import OptimizerConfig, ScheduleConfig
from robustvit.training.config_io import ConfigError, load_config
from robustvit.training.optimization import Schedule, build_optimizer, total_updates

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "protocols.json").read_text())["schedules"]
SEGMENTATION = ScheduleConfig(
    name="poly", updates=160_000, warmup_updates=1500, warmup_ratio=1e-6, min_lr=0, options={"decay_rate": 1.0}
)


def optimizer(*rates: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates])


def rates(config: ScheduleConfig, base: float, entry: dict[str, Any], updates_per_epoch: int, group: int = 0) -> list[float]:
    groups = optimizer(6e-5, base)
    schedule, found = Schedule(groups, config, updates_per_epoch), []
    for update in entry["lr_at"]:
        schedule.set(int(update))
        found.append(groups.param_groups[group]["lr"])
    return found


@pytest.mark.parametrize("kind", ["segmentation", "segmentation_head"])
def test_poly_with_a_warm_up_that_multiplies_it_is_the_published_schedule(kind: str) -> None:
    entry = REFERENCE[kind]
    found = rates(SEGMENTATION, entry["base_lr"], entry, 371, group=1)
    assert found == pytest.approx(list(entry["lr_at"].values()), rel=1e-6)


def test_steps_with_a_warm_up_are_the_published_schedule_of_detectors() -> None:
    """timm's steps come an epoch before their milestone: 28 and 34 are what others call 27 and 33."""
    entry, config = REFERENCE["detection"], load_config("fan/cascade_mask_rcnn_small")
    found = rates(config.schedule, config.optimizer.lr, entry, entry["iterations_per_epoch"], group=1)
    assert found == pytest.approx(list(entry["lr_at"].values()), rel=1e-6)
    assert total_updates(config.schedule, 1000, config.loop.max_updates) == 36_000


def test_the_rate_of_an_update_does_not_depend_on_those_before() -> None:
    groups = optimizer(1.0)
    schedule = Schedule(groups, SEGMENTATION, 100)
    first = schedule.set(700)
    schedule.set(3)
    assert schedule.set(700) == first


def test_a_rate_that_lags_is_that_of_the_epoch_before() -> None:
    """Cosine over 4 epochs of 2 updates from 1 to 0: (1 + cos(pi e / 4)) / 2, with a warm-up of one epoch from 0.1."""
    cosine = [0.1, 0.1, 0.853553, 0.853553, 0.5, 0.5, 0.146447, 0.146447]
    base: dict[str, Any] = dict(epochs=4, warmup_epochs=1, warmup_lr=0.1, min_lr=0, every="epoch", cooldown_epochs=1)
    plain, late = (Schedule(optimizer(1.0), ScheduleConfig(**base, lag_epochs=lag), 2) for lag in (0, 1))
    assert [plain.set(update) for update in range(10)] == pytest.approx([*cosine, 0, 0], abs=1e-6)
    assert [late.set(update) for update in range(10)] == pytest.approx([0.1, 0.1, *cosine], abs=1e-6)
    assert total_updates(ScheduleConfig(**base, lag_epochs=1), 2, 0) == 10  # the run is no longer for it


def test_without_a_warm_up_a_rate_that_lags_stays_at_its_peak_for_two_epochs() -> None:
    config = ScheduleConfig(epochs=2, warmup_epochs=0, min_lr=0, every="epoch", lag_epochs=1)
    schedule = Schedule(optimizer(1.0), config, 3)
    assert [schedule.set(update) for update in range(6)] == [1.0] * 6


def test_a_rate_that_changes_every_update_lags_by_the_updates_of_an_epoch() -> None:
    plain, late = (Schedule(optimizer(1.0), ScheduleConfig(epochs=3, lag_epochs=lag), 5) for lag in (0, 1))
    rates_of_plain = [plain.set(update) for update in range(15)]
    assert [late.set(update) for update in range(15)] == [rates_of_plain[0]] * 5 + rates_of_plain[:10]


def test_a_run_may_be_as_long_as_a_number_of_updates() -> None:
    assert total_updates(ScheduleConfig(updates=25), 10, 0) == 25
    assert total_updates(ScheduleConfig(updates=25, cooldown_epochs=1), 10, 0) == 35
    assert total_updates(ScheduleConfig(updates=25), 10, 7) == 7
    assert total_updates(ScheduleConfig(epochs=3), 10, 0) == 30


def test_a_schedule_in_updates_is_that_in_epochs_of_the_same_length() -> None:
    one, other = optimizer(1.0), optimizer(1.0)
    in_epochs = Schedule(one, ScheduleConfig(epochs=5, warmup_epochs=1, cooldown_epochs=1), 20)
    in_updates = Schedule(other, ScheduleConfig(updates=100, warmup_epochs=1, cooldown_epochs=1), 20)
    assert [in_epochs.set(i) for i in range(120)] == pytest.approx([in_updates.set(i) for i in range(120)])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"updates": 100, "every": "epoch"}, ("schedule.every", "schedule.updates")),
        ({"warmup_updates": -1}, ("schedule.warmup_updates", -1)),
        ({"warmup_ratio": 2.0}, ("schedule.warmup_ratio", 2.0)),
        ({"updates": -5}, ("schedule.updates", -5)),
        ({"lag_epochs": -1}, ("schedule.lag_epochs", -1)),
    ],
)
def test_schedules_that_are_not_possible_are_refused(options: dict[str, Any], named: tuple[object, ...]) -> None:
    with refused(ValueError, *named):
        ScheduleConfig(**options)


def test_a_warm_up_longer_than_the_run_is_refused() -> None:
    with refused(ConfigError, "warmup_epochs=3", 30, "updates=20"):
        Schedule(optimizer(1.0), ScheduleConfig(updates=20, warmup_epochs=3), 10)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.bn = nn.Conv2d(3, 4, 1), nn.LayerNorm(4), nn.BatchNorm2d(4)
        self.batch_norm, self.token = nn.BatchNorm2d(4), nn.Parameter(torch.zeros(1, 1, 4))
        self.decode_head = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2))

    def no_weight_decay(self) -> set[str]:
        return {"token"}


def grouped(config: OptimizerConfig) -> dict[tuple[float, float], set[str]]:
    """(rate, decay) -> names."""
    network = Small()
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    groups = build_optimizer(network, config, 8).param_groups
    return {(group["lr"], group["weight_decay"]): {names[id(p)] for p in group["params"]} for group in groups}


def test_heads_decay_whatever_they_contain_and_so_does_all_but_layer_norms() -> None:
    found = grouped(OptimizerConfig(lr=0.01, weight_decay=0.1, no_decay="layer_norms", head_rate=10))
    assert found[0.1, 0.1] == {"decode_head.0.weight", "decode_head.0.bias", "decode_head.1.weight", "decode_head.1.bias"}
    assert found[0.01, 0.0] == {"norm.weight", "norm.bias"}
    body = {"conv.weight", "conv.bias", "bn.weight", "bn.bias", "batch_norm.weight", "batch_norm.bias", "token"}
    assert found == {(0.1, 0.1): found[0.1, 0.1], (0.01, 0.0): found[0.01, 0.0], (0.01, 0.1): body}


def test_heads_may_learn_faster_under_the_rule_of_timm() -> None:
    plain = grouped(OptimizerConfig(lr=0.01, weight_decay=0.1))
    found = grouped(OptimizerConfig(lr=0.01, weight_decay=0.1, head_rate=3))
    for decay in (0.0, 0.1):
        heads = {name for name in plain[0.01, decay] if name.startswith("decode_head")}
        assert found[0.03, decay] == heads
        assert found[0.01, decay] == plain[0.01, decay] - heads


def test_groups_by_layer_and_by_head_do_not_go_together() -> None:
    with refused(ValueError, "layer_decay", "head_rate"):
        OptimizerConfig(layer_decay=0.8, head_rate=10)
