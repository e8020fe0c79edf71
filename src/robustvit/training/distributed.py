"""Training in several processes: joining them, wrapping the network, and what they must agree on.

The network and the methods are written for one device; nothing else knows how many there are. A batch is split so that
mixing partners stay together (`sampling`), each loss is weighted by its share of the whole batch, and gradients are summed:
so the number of processes does not change what is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from robustvit.models.heads.token_head import has_token_head
from robustvit.runtime.processes import Processes, join_processes
from robustvit.runtime.ranks import local_rank

__all__ = ["STATISTICS", "Workers", "choose_device", "join_workers"]

Parallel = Literal["ddp", "fsdp"]
STATISTICS = ("running_mean", "running_var")
"""Buffers of batch norm, by the end of their names."""


def choose_device(name: str) -> torch.device:
    """ "auto" takes a GPU where there is one; each process of a node its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"loop.device is {name!r}; give auto, cpu, cuda, cuda:1 or mps") from error
    if device.type == "cuda" and device.index is None:
        if not torch.cuda.is_available():
            raise ValueError("loop.device is 'cuda', but PyTorch finds no CUDA device here; use 'auto' or 'cpu'")
        device = torch.device("cuda", local_rank() or 0)
        torch.cuda.set_device(device)
    return device


@dataclass(frozen=True)
class Workers(Processes):
    """The processes of a training run, and what goes between them."""

    parallel: Parallel = "ddp"

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wrap(self, module: nn.Module, device: torch.device) -> nn.Module:
        """The module with its gradients averaged over the processes; parameters are those of the first."""
        if self.world == 1:
            return module
        if self.parallel == "ddp":
            place = [device.index] if device.type == "cuda" else None
            return nn.parallel.DistributedDataParallel(module, device_ids=place, broadcast_buffers=False)
        return module

    def shard(self, network: nn.Module) -> None:
        """FSDP2: splits the parameters of every block, and of the rest, over the processes, in place."""
        if self.world == 1 or self.parallel != "fsdp":
            return
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        for parameter in network.state_dict().values():  # each process has drawn the same, but files may differ
            dist.broadcast(parameter, 0)
        called = [*getattr(network, "called_besides_forward", ()), *(["forward_tokens"] if has_token_head(network) else [])]
        for module in (*_blocks(network), network):
            fully_shard(module)
            for method in called:
                if hasattr(module, method):
                    register_fsdp_forward_method(module, method)

    @contextmanager
    def accumulating(self, module: nn.Module, is_last: bool) -> Iterator[None]:
        """Micro-batches before the last keep their gradients to themselves."""
        if isinstance(module, nn.parallel.DistributedDataParallel) and not is_last:
            with module.no_sync():
                yield
            return
        with nullcontext():
            yield

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Sums tensors over the processes, in place."""
        if self.world > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def average_statistics(self, network: nn.Module) -> None:
        """Batch-norm statistics become their mean over the processes: all have the same network after every update."""
        buffers = [buffer for name, buffer in network.named_buffers() if name.endswith(STATISTICS)]
        if self.world == 1 or not buffers:
            return
        together = torch.cat([buffer.flatten() for buffer in buffers])
        dist.all_reduce(together)
        parts = (together / self.world).split([buffer.numel() for buffer in buffers])
        for buffer, part in zip(buffers, parts, strict=True):
            buffer.copy_(part.view_as(buffer))

    def network_state(self, network: nn.Module) -> dict[str, Tensor]:
        """The whole state dict, on the CPU; of a sharded network only in the first process."""
        if self.is_sharded:
            return dict(get_model_state_dict(network, options=_WHOLE))  # type: ignore[arg-type]
        return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}

    def load_network_state(self, network: nn.Module, state: Mapping[str, Tensor]) -> None:
        if self.is_sharded:
            set_model_state_dict(network, dict(state), options=_WHOLE)
        else:
            network.load_state_dict(state)

    def optimizer_state(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        if self.is_sharded:
            return get_optimizer_state_dict(network, optimizer, options=_WHOLE)
        return optimizer.state_dict()

    def load_optimizer_state(self, network: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        if self.is_sharded:
            set_optimizer_state_dict(network, optimizer, state, options=_WHOLE)
        else:
            optimizer.load_state_dict(state)

    @property
    def is_sharded(self) -> bool:
        """Whether each process has only a part of the network."""
        return self.world > 1 and self.parallel == "fsdp"


_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def _blocks(network: nn.Module) -> Iterator[nn.Module]:
    """The repeated blocks of a network: entries of its outermost lists, and of those of its backbone."""
    backbone = getattr(network, "backbone", None)
    inside = backbone.children() if isinstance(backbone, nn.Module) else ()
    for module in (*network.children(), *inside):
        if isinstance(module, nn.ModuleList | nn.Sequential):
            yield from _entries(module)


def _entries(blocks: nn.ModuleList | nn.Sequential) -> Iterator[nn.Module]:
    """The blocks of a list of blocks, of stages with `blocks`, or of lists of blocks."""
    for entry in blocks:
        inner = entry if isinstance(entry, nn.ModuleList) else getattr(entry, "blocks", None)
        if isinstance(inner, nn.ModuleList | nn.Sequential):
            yield from _entries(inner)
        else:
            yield entry


@contextmanager
def join_workers(parallel: Parallel, device: torch.device) -> Iterator[Workers]:
    """Joins the processes that torchrun started, if it did, and leaves them at the end."""
    with join_processes("nccl" if device.type == "cuda" else "gloo") as processes:
        yield Workers(processes.rank, processes.world, parallel)
