"""A run in memory: network, methods, optimizer and data, and the one update that all of training consists of."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timm.utils import ModelEmaV3
from torch import Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import protocol_of
from robustvit.methods.base import Method, MethodContext, Step
from robustvit.runtime.full_attention import full_attention
from robustvit.runtime.nested import tensors_of
from robustvit.runtime.precision import dtype_of
from robustvit.runtime.randomness import keyed_seed
from robustvit.tasks.registry import task_named
from robustvit.training.augment.mixing import draw_mixes
from robustvit.training.batches import Batch, TrainingData
from robustvit.training.checks import check_combination
from robustvit.training.config import TrainConfig
from robustvit.training.config_io import ConfigError
from robustvit.training.deepaugment.distortion import Distortion
from robustvit.training.deepaugment.kinds import distortion_class
from robustvit.training.diagnostics import Diagnosis
from robustvit.training.distributed import Workers
from robustvit.training.forward import Forward, TrainedNetwork, loss_terms, needs_of
from robustvit.training.frozen_statistics import freeze_statistics, is_freezing
from robustvit.training.inputs import prepare
from robustvit.training.networks import frozen_network, network_of
from robustvit.training.not_finite import NotFiniteError, not_finite_weights
from robustvit.training.optimization import Schedule, build_optimizer, total_updates
from robustvit.training.synchronised_statistics import check_synchronisation, synchronise_statistics
from robustvit.training.training_sets import TrainingSamples, training_samples

__all__ = ["Run"]

LEARNT_IMAGES = 1000
"""Training images that DeepAugment's own networks learn."""


class Run:
    """Everything a run consists of, at `updates_done` updates.

    Args:
        config: what to do.
        workers: the processes that do it.
        device: of this process.
        cache: file for what DeepAugment's own networks have learned, so that a resumed run need not learn it again.
    """

    def __init__(self, config: TrainConfig, workers: Workers, device: torch.device, *, cache: Path | None = None) -> None:
        self.config, self.workers, self.device, self.cache = config, workers, device, cache
        self.seed, loop = config.loop.seed, config.loop
        self.updates_done = 0
        check_combination(config)
        check_synchronisation(loop, workers.world, device)
        self.task = task_named(config.task).with_divisor(config.loss.divisor)
        self.needs = needs_of(config.methods.values())
        samples = training_samples(self.task, config.data, seed=self.seed)
        self.outputs = self._number_of_outputs(samples.outputs)
        self._build_network()
        self.data = self._open_data(samples)
        self.methods = self._build_methods()
        self.distort = self._build_distortion()
        self.ema = self._build_ema()
        workers.shard(self.network)
        if self.ema is not None:
            workers.shard(self.ema.module)
        self.optimizer = build_optimizer(self.network, config.optimizer, loop.batch_size)
        self.updates_per_epoch = self.data.updates_per_epoch(loop.batch_size)
        self.batches(epochs=1).close()  # raises where the batch cannot be dealt out
        self.schedule = Schedule(self.optimizer, config.schedule, self.updates_per_epoch)
        self.updates = total_updates(config.schedule, self.updates_per_epoch, loop.max_updates)
        self.scaler = torch.amp.GradScaler(device.type, enabled=loop.precision == "fp16")
        module: nn.Module = TrainedNetwork(self.network, self.task, self.needs.token_logits)
        self.module = workers.wrap(torch.compile(module) if loop.compile else module, device)  # type: ignore[arg-type]
        self.forward = Forward(self.module, self.network, self.task, self.needs)

    def _number_of_outputs(self, known: int) -> int:
        """Of the network, for data with `known` classes."""
        asked = self.config.model.num_classes or known
        if known > asked:
            raise ConfigError(
                f"the network has {asked} classes and {self.config.data.train} has {known}; leave model.num_classes out, or "
                "give the right number"
            )
        return asked

    def _open_data(self, samples: TrainingSamples) -> TrainingData:
        config, view = self.config, self.needs.spatial_view
        how: Any = dict(seed=self.seed, mean=self.normalisation.mean, spatial_view=view)
        return TrainingData(self.task, samples, config.data, config.augment, self.size, **how)

    def _build_network(self) -> None:
        """The network, and what it takes."""
        config, loop = self.config, self.config.loop
        torch.manual_seed(keyed_seed(self.seed, "network") >> 1)
        network = network_of(self.task, config.model, self.outputs, config.augment)
        self.protocol = protocol_of(self.task.protocol or "model", network)
        self.size = config.augment.crop_size or self.protocol.size  # of training images
        self.normalisation = Normalisation.of(network)
        if loop.sync_batchnorm and self.workers.world > 1:
            synchronise_statistics(network)
        if loop.grad_checkpointing:
            network.set_grad_checkpointing(True)
        layout = torch.channels_last if loop.channels_last else torch.contiguous_format
        self.network: Any = network.to(self.device, memory_format=layout).train()
        self.frozen = freeze_statistics(network) if is_freezing(loop, self.task, self.workers.world) else 0

    def _build_methods(self) -> list[Method]:
        def load(name: str, checkpoint: str, options: Mapping[str, Any]) -> nn.Module:
            return frozen_network(name, checkpoint, **{"num_classes": self.outputs, **options}).to(self.device)

        torch.manual_seed(keyed_seed(self.seed, "methods") >> 1)
        context = MethodContext(self.network, self.outputs, self.size, self.device, self.seed, load)
        return [method.build(context) for method in self.config.methods.values()]

    def _build_distortion(self) -> Distortion | None:
        kind = self.config.augment.deepaugment
        if not kind:
            return None
        return distortion_class(kind).build(self.normalisation, self._some_images, cache=self.cache, seed=self.seed)

    def _some_images(self) -> Tensor:
        """uint8 [n, 3, H, W], as they come to the network."""
        batches = self.data.batches(min(LEARNT_IMAGES, self.data.length), epochs=1, mixing=False)
        try:
            return next(batches)[0].images
        finally:
            batches.close()

    def _build_ema(self) -> ModelEmaV3 | None:
        loop = self.config.loop
        if not loop.ema_decay:
            return None
        together = loop.parallel != "fsdp"  # sharded parameters and whole buffers cannot be
        return ModelEmaV3(self.network, decay=loop.ema_decay, use_warmup=loop.ema_warmup, foreach=together)

    def batches(self, epochs: int) -> Generator[list[Batch], None, None]:
        """What `advance` takes: the micro-batches of this process, for each update from here to the end of `epochs`."""
        loop, workers = self.config.loop, self.workers
        return self.data.batches(
            loop.batch_size,
            start_update=self.updates_done,
            rank=workers.rank,
            world=workers.world,
            accumulate=loop.accumulate,
            epochs=epochs,
        )

    @property
    def epoch(self) -> float:
        """Epochs done, as a fraction."""
        return self.updates_done / self.updates_per_epoch

    def advance(self, batches: Sequence[Batch]) -> dict[str, Any]:
        """One update of the network with all micro-batches of this process.

        Returns:
            The loss, its terms (of the whole batch, over all processes), the rate, and numbers of the methods; where the
            update is logged, also their diagnostics.

        Raises:
            NotFiniteError: the loss is NaN or infinite; the update was not applied.
        """
        torch.manual_seed(keyed_seed(self.seed, self.updates_done, self.workers.rank) >> 1)
        rate = self.schedule.set(self.updates_done)
        diagnosis = self._diagnosis()
        sums: dict[str, Tensor] = {}
        for i, batch in enumerate(batches):
            with self.workers.accumulating(self.module, is_last=i == len(batches) - 1):
                step, terms = self._backward(batch, diagnosis)
            for name, value in terms.items():
                sums[name] = sums.get(name, torch.zeros((), device=self.device)) + value.detach().float() * step.share
        terms_of_all = self._agreed(sums, batches)
        norm = self._step_optimizer(terms_of_all, batches)
        numbers = {name: value for method in self.methods for name, value in method.update(self.workers.sum).items()}
        self.workers.average_statistics(self.network)
        self.updates_done += 1
        if self.ema is not None:
            self.ema.update(self.network, step=self.updates_done if self.config.loop.ema_warmup else None)
        found = {"lr": rate, "loss": sum(terms_of_all.values()), "terms": terms_of_all, **numbers, "grad_norm": norm}
        return found if diagnosis is None else {**found, "diagnostics": diagnosis.agreed(self.workers, self.device)}

    def is_logged(self, update: int) -> bool:
        """Whether an update, counted from 1, is one of those that get a line of metrics.jsonl."""
        return update % self.config.loop.log_every == 0 or update == self.updates

    def _diagnosis(self) -> Diagnosis | None:
        """For the update that comes, where it will be logged."""
        if not self.is_logged(self.updates_done + 1):
            return None
        can_compare = not self.workers.is_sharded and not self.config.loop.compile
        return Diagnosis(self.network, self.methods, can_compare=can_compare)

    def _backward(self, batch: Batch, diagnosis: Diagnosis | None) -> tuple[Step, dict[str, Tensor]]:
        is_half = self.config.loop.precision != "fp32"
        with full_attention() if is_half and not self.config.loop.compile else nullcontext():
            return self._backward_in_precision(batch, diagnosis)

    def _backward_in_precision(self, batch: Batch, diagnosis: Diagnosis | None) -> tuple[Step, dict[str, Tensor]]:
        step = self._step_of(batch)
        precision = dtype_of(self.config.loop.precision)
        with torch.autocast(self.device.type, precision, enabled=precision is not torch.float32):
            with nullcontext() if diagnosis is None else diagnosis.watching(step.share):
                self.forward.run(step, self.methods)
            found = loss_terms(step, self.methods, self.config.loss.weight)
            if diagnosis is not None:
                diagnosis.ask(step, found, self.workers, self.scaler.get_scale())
        terms = found.all
        loss = torch.stack([term.float() for term in terms.values()]).sum()
        if not self.config.loss.weight:  # every parameter takes part, as several processes expect
            loss = loss + 0 * sum(tensor.float().sum() for tensor in tensors_of(step.outputs.answer))
        factor = self.workers.world  # gradients are averaged over the processes, and `share` already counts all of them
        self.scaler.scale(loss * step.share * factor).backward()
        for method in self.methods:
            method.after_backward(step, self.scaler.get_scale() * factor)
        return step, terms

    def _step_of(self, batch: Batch) -> Step:
        config = self.config
        mixes = draw_mixes(config.augment, self.seed, self.updates_done, batch.groups, *self.size)
        made = prepare(
            self.task,
            batch,
            config.augment,
            mixes,
            device=self.device,
            normalisation=self.normalisation,
            outputs=self.outputs,
            smoothing=config.loss.smoothing,
            distort=self.distort,
            with_unmixed=self.needs.unmixed_view,
        )
        images = made.images.contiguous(memory_format=torch.channels_last) if config.loop.channels_last else made.images
        return Step(
            task=self.task,
            network=self.network,
            forward=partial(self.forward, targets=made.targets),
            images=images,
            targets=made.targets,
            seeds=batch.seeds,
            share=len(batch.images) / config.loop.batch_size,
            epoch=self.epoch,
            progress=self.updates_done / self.updates,
            mean=self.normalisation.mean,
            std=self.normalisation.std,
            view=made.view,
            unmixed=made.unmixed,
            mixes=mixes,
        )

    def _agreed(self, sums: dict[str, Tensor], batches: Sequence[Batch]) -> dict[str, float]:
        """The terms summed over the processes; stops all of them if one is not finite."""
        values = torch.stack(list(sums.values())).double()
        self.workers.sum([values])
        terms = dict(zip(sums, values.tolist(), strict=True))
        if not all(map(math.isfinite, terms.values())):
            told = ", ".join(f"{name} {value:g}" for name, value in terms.items())
            raise self._not_finite(f"the loss is not a number at update {self.updates_done + 1}: {told}", terms, batches)
        return terms

    def _not_finite(self, message: str, terms: Mapping[str, float], batches: Sequence[Batch]) -> NotFiniteError:
        self.optimizer.zero_grad()
        ids = [name for part in self.workers.gather([i for batch in batches for i in batch.ids]) for name in part]
        return NotFiniteError(message, self.updates_done + 1, terms, ids)

    def _step_optimizer(self, terms: Mapping[str, float], batches: Sequence[Batch]) -> float:
        """Clips and steps; the norm of the gradient. The loss scaler leaves out a step whose gradient is not finite."""
        clip = self.config.optimizer.clip_grad
        self.scaler.unscale_(self.optimizer)
        norm = float(nn.utils.clip_grad_norm_(self.network.parameters(), math.inf if clip is None else clip))
        if not math.isfinite(norm) and not self.scaler.is_enabled():
            raise self._not_finite(f"the gradient is not a number at update {self.updates_done + 1}", terms, batches)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return norm

    def check_weights(self) -> None:
        """Raises NotFiniteError where an update has left weights, averages or statistics that no later loss has shown yet."""
        networks = {"": self.network, "average of ": self.ema.module} if self.ema is not None else {"": self.network}
        wrong = [what + name for what, network in networks.items() for name in not_finite_weights(network)]
        if found := sorted({name for part in self.workers.gather(wrong) for name in part}):
            told = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
            raise NotFiniteError(
                f"weights are no numbers after update {self.updates_done} ({told}); a smaller optimizer.lr or "
                "optimizer.clip_grad may help, and --resume goes on from the last checkpoint",
                self.updates_done,
                {},
                [],
            )

    def state(self) -> dict[str, Any]:
        """All that the run depends on; `load` takes it. Sharded parts are gathered, so every process must call it."""
        workers = self.workers
        return {
            "update": self.updates_done,
            "pictures": self.data.fingerprint(),
            "network": workers.network_state(self.network),
            "ema": workers.network_state(self.ema.module) if self.ema is not None else None,
            "optimizer": workers.optimizer_state(self.network, self.optimizer),
            "scaler": self.scaler.state_dict(),
            "methods": {method.name: method.state_dict() for method in self.methods},
        }

    def check_samples(self, state: Mapping[str, Any]) -> None:
        """Raises ConfigError where a state is of a run with other images."""
        if state.get("pictures", now := self.data.fingerprint()) != now:
            raise ConfigError(
                f"the images of {self.config.data.train} are not those that the run began with (another number, or other "
                "names); restore them, or start a new run in another folder"
            )

    def load(self, state: Mapping[str, Any]) -> None:
        workers = self.workers
        workers.load_network_state(self.network, state["network"])
        if self.ema is not None:
            workers.load_network_state(self.ema.module, state["ema"])
        workers.load_optimizer_state(self.network, self.optimizer, state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        for method in self.methods:
            method.load_state_dict(state["methods"][method.name])
        self.updates_done = int(state["update"])
