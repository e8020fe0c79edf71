"""Which batch norms share their statistics between processes, and where they cannot."""

from __future__ import annotations

import copy

import pytest
import torch
from refusals import refused
from tiny_runs import tiny_config
from torch import nn

import robustvit as rv
from robustvit.training.config_io import ConfigError
from robustvit.training.distributed import Workers
from robustvit.training.run import Run
from robustvit.training.synchronised_statistics import check_synchronisation, synchronise_statistics


def batch_norms(network: nn.Module) -> dict[str, nn.Module]:
    return {name: module for name, module in network.named_modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)}


@pytest.mark.parametrize("name", ["fan_hybrid_tiny/segformer", "fan_vit_tiny/setr_pup", "fan_hybrid_tiny"])
def test_all_batch_norms_are_synchronised_but_those_of_taps_predictors(name: str) -> None:
    with torch.device("meta"):
        network = rv.create_model(name, num_classes=5, tap=4)
    before, state = batch_norms(network), list(network.state_dict())
    synchronise_statistics(network)
    after = batch_norms(network)
    assert list(after) == list(before)
    assert list(network.state_dict()) == state
    plain = {name for name, module in after.items() if not isinstance(module, nn.SyncBatchNorm)}
    assert plain == {name for name in before if ".tap.predictor." in name}
    assert plain
    assert plain < set(before)


@pytest.mark.parametrize("name", ["fan_hybrid_nano/segformer", "efficientnet_lite0"])
def test_a_network_answers_as_before(name: str) -> None:
    """Also one whose batch norms contain their activation."""
    torch.manual_seed(0)
    network = rv.create_model(name, num_classes=5).eval()
    synchronised = copy.deepcopy(network)
    synchronise_statistics(synchronised)
    images = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        assert torch.equal(synchronised(images), network(images))


def test_several_processes_without_gpus_are_refused_before_the_work() -> None:
    config = tiny_config(["loop.sync_batchnorm=true", "data.train=/nowhere"])
    with refused(ConfigError, "loop.sync_batchnorm", "cpu"):
        Run(config, Workers(0, 2), torch.device("cpu"))


@pytest.mark.parametrize(("change", "world", "device"), [("true", 1, "cpu"), ("false", 2, "cpu"), ("true", 2, "cuda")])
def test_one_process_and_gpus_are_not_refused(change: str, world: int, device: str) -> None:
    check_synchronisation(tiny_config([f"loop.sync_batchnorm={change}"]).loop, world, torch.device(device))
