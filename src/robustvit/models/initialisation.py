"""Initial weights that depend on the seed and the name of a tensor, and on nothing else of the network.

Layers draw their weights one after the other from one stream, so that an option that adds a part (TAP, a token head, another
depth) shifts all later draws, and networks that differ by it start from other weights everywhere. Here they start from the
same weights wherever they have the same tensors, and can be compared in pairs over seeds.

    with named_initialisation() as initialise:
        network = FAN(...)
        initialise(network)

Layers keep initialising themselves in their constructors. What they do to their tensors is noted, and from the last draw of
all values on it is done again, from a generator that the name of the tensor seeds. Weights that were read in between stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from robustvit.runtime.randomness import keyed_seed

__all__ = ["coming_seed", "named_initialisation"]


class _Change(NamedTuple):
    """A call that changed a tensor in place."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


OVERWRITING = frozenset({"copy_", "fill_", "zero_", "zeros_", "ones_", "constant_"})
"""Names of functions after which it does not matter what a tensor was before, if they are given all of it."""


class _Changes(TorchFunctionMode):
    """Notes what is done to tensors in place, by their memory: since all values were last drawn at random.

    A tensor that is overwritten by other means, such as weights from a file, is none of those.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_memory: dict[int, list[_Change]] = {}

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        changed = kwargs.get("out", args[0] if args else kwargs.get("tensor"))  # of functions of torch.nn.init, by name
        in_place = name == "__setitem__" or "out" in kwargs or (name.endswith("_") and not name.endswith("__"))
        if not in_place or not isinstance(changed, Tensor) or changed.is_meta:
            return func(*args, **kwargs)
        generator = _generator(changed.device)
        before = generator.get_state()
        result = func(*args, **kwargs)
        is_random = not torch.equal(before, generator.get_state())
        self._note(changed, name, _Change(func, args, kwargs), is_random)
        return result

    def _note(self, changed: Tensor, name: str, change: _Change, is_random: bool) -> None:
        memory = changed.untyped_storage()
        is_whole = changed.numel() * changed.element_size() == memory.nbytes()
        if is_whole and is_random:
            self.of_memory[memory.data_ptr()] = [change]
        elif is_whole and (name in OVERWRITING or "out" in change.kwargs):
            self.of_memory.pop(memory.data_ptr(), None)
        elif memory.data_ptr() in self.of_memory:
            self.of_memory[memory.data_ptr()].append(change)


def _generator(device: torch.device) -> torch.Generator:
    """The global one of a device. To seed it is cheap; `torch.manual_seed` reaches for every kind of device each time."""
    if device.type != "cuda":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]


def _unchanged_generators() -> AbstractContextManager[None]:
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    return torch.random.fork_rng(devices=devices)


def coming_seed() -> int:
    """What the next `named_initialisation` would take from the global generator, and still can."""
    with _unchanged_generators():
        return _next_seed()


def _next_seed() -> int:
    if torch.get_default_device().type == "meta":
        return 0
    return int(torch.randint(2**62, (), device="cpu"))


@contextmanager
def named_initialisation(seed: int | None = None) -> Iterator[Callable[[nn.Module], None]]:
    """What is built inside takes one number from the global generator, whatever it consists of; none on the meta device.

    Args:
        seed: instead of that number; the global generator then stays as it is.

    Yields:
        What draws the parameters of a network anew, each from a seed of that number and its name; call it on what was built.
    """
    seed = _next_seed() if seed is None else seed
    changes = _Changes()

    def initialise(network: nn.Module) -> None:
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                again = changes.of_memory.get(parameter.untyped_storage().data_ptr(), ())
                if again:
                    _generator(parameter.device).manual_seed(keyed_seed(seed, name) >> 1)
                for function, args, kwargs in again:
                    function(*args, **kwargs)

    with _unchanged_generators(), changes:
        yield initialise
