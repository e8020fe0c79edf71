"""Fetching published weights: without a connection that fails within seconds, and says what to do instead.

Hugging Face's client tries each file six times, for half a minute, also where the machine has no connection at all.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from safetensors import SafetensorError
from timm.models import get_pretrained_cfg

from robustvit.runtime.weights import CheckpointError, reader_error

__all__ = ["fetching", "short_timeout"]

PATIENCE = 10.0
"""Seconds without an answer after which a host counts as unreachable."""


@contextmanager
def short_timeout() -> Iterator[None]:
    """Lets connections that Python opens meanwhile fail after `PATIENCE` seconds of silence."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@contextmanager
def fetching(name: str) -> Iterator[None]:
    """Around the building of a network with published weights.

    Args:
        name: as timm takes it.

    Raises:
        RuntimeError: they are not in the cache and cannot be fetched.
    """
    is_hub = name.startswith("hf-hub:")
    cfg = None if ":" in name else get_pretrained_cfg(name)
    hub_id = name.removeprefix("hf-hub:") if is_hub else getattr(cfg, "hf_hub_id", None)
    place = f"https://huggingface.co/{hub_id}" if hub_id else getattr(cfg, "url", None)
    is_offline = bool(hub_id) and not _is_reachable_hub()
    try:
        with short_timeout(), _offline_hub() if is_offline else nullcontext():
            yield
    except (pickle.UnpicklingError, SafetensorError) as error:
        reason = reader_error(error)
        raise CheckpointError(f"the weights of {name} are damaged, or hold more than weights ({reason})") from error
    except OSError as error:  # also what Hugging Face's client and urllib raise
        if not place:
            raise
        reason = "there is no connection" if is_offline else " ".join(str(error).split())
        instead = "local-dir:FOLDER with its files" if is_hub else f"{name}=FILE (checkpoint_path=FILE in Python)"
        raise RuntimeError(
            f"the weights of {name} are not on this machine and cannot be fetched: {reason}; get them from {place} by other "
            f"means and give {instead}"
        ) from error


@contextmanager
def _offline_hub() -> Iterator[None]:
    """Tells Hugging Face's client that there is no connection: it takes what is in its cache, or fails at once."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _is_reachable_hub() -> bool:
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception:  # its releases use different HTTP packages, which have no exception in common
        return False
    return True
