"""A network whose weights are all trained, from what a user types.

All commands load networks here, so that none of them works with weights that another would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from robustvit.models.dense_names import dense_name
from robustvit.models.dense_weights import tags_of, whole_weights
from robustvit.models.registry import create_model
from robustvit.models.sources import understood

__all__ = ["built_with", "load_model"]


def load_model(model: str, *, untrained: bool = False, **options: Any) -> Any:
    """The network that a user names, with its weights; its attribute `is_untrained` says whether they are random.

    Args:
        model: NAME (weights of the package, or published ones), NAME=FILE, FILE (a checkpoint that says which network it is
            of), `hf-hub:ID` or `local-dir:FOLDER`.
        untrained: a NAME alone gets random weights, the same every time.
        options: of `create_model`.

    Raises:
        ValueError: there are no weights, they leave a part of the network untrained, or it cannot have one of the options.
        CheckpointError: the weights are of another network.
    """
    source = understood(model)
    is_untrained = untrained and source.is_name
    if source.is_name and not is_untrained:
        _check_whole(source.name)
    with built_with(source.name, options):
        if is_untrained:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)  # an interrupted run can go on only with the same weights
                network = create_model(model, **options)
        else:
            network = create_model(model, pretrained=True, **options)
    if source.file is None and not is_untrained:
        _check_trained(model, network, options)
    network.is_untrained = is_untrained
    return network


@contextmanager
def built_with(name: str, options: Iterable[str]) -> Iterator[None]:
    """Turns what a constructor raises for options that it does not have, or cannot use, into a ValueError that names them."""
    try:
        yield
    except (TypeError, KeyError, AttributeError, IndexError, ArithmeticError, AssertionError) as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ValueError(f"{name} cannot be built with {', '.join(options) or 'these options'} ({reason})") from error


def _check_whole(name: str) -> None:
    """Raises ValueError for a dense network without weights: those of its backbone alone would leave the head random."""
    dense = dense_name(name)
    if dense is not None and whole_weights(dense) is None:
        tags = tags_of(dense)
        there = f"give a tag, as {name}.{tags[0]}, or" if tags else "there are none, only of its backbone; give"
        raise ValueError(f"which weights of {name}? {there} {name}=FILE, or try things out with --untrained")


def _check_trained(name: str, network: Any, options: dict[str, Any]) -> None:
    """Raises ValueError where published weights leave a part of the network random."""
    stored, asked = network.pretrained_cfg.get("num_classes"), options.get("num_classes")
    random = [*getattr(network, "fresh_parts", ())]
    if stored and asked and stored != asked:
        random.append(f"classifier of {asked} classes (theirs has {stored})")
    if random:
        raise ValueError(
            f"the weights of {name} have no {' and no '.join(random)}, which would stay random; leave that out, give weights "
            "that have it, or try things out with --untrained"
        )
