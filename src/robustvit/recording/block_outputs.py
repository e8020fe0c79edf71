"""What comes out of the blocks of a network, of whatever kind: tokens of transformers, positions of the maps of CNNs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from robustvit.recording.tape import NothingRecordedError, attention_blocks, has_attention, record
from robustvit.runtime.evaluation_mode import evaluation_mode

__all__ = ["BlockTokens", "block_tokens", "blocks_of", "check_blocks"]


@dataclass(frozen=True)
class BlockTokens:
    """The output of one block: tokens [B, N, C], row-major on `grid`, without prefix tokens."""

    tokens: Tensor
    grid: tuple[int, int]


def block_tokens(model: nn.Module, images: Tensor) -> list[BlockTokens]:
    """The tokens after every block; in a CNN, the positions of the map after every residual block.

    Args:
        model: a network with attention, or a CNN of residual blocks; run in evaluation mode, and left as it was.
        images: normalised [B, 3, H, W].

    Raises:
        NothingRecordedError: the network has neither.
    """
    blocks = blocks_of(model)
    if has_attention(model):
        with evaluation_mode(model), record(model, attention=False) as tape:
            model(images)
        image_tokens = (features[:, tape.prefix_tokens :] for features in tape.features)
        return [BlockTokens(tokens, grid) for tokens, grid in zip(image_tokens, tape.grids, strict=True)]
    maps = _outputs_of(model, blocks, images)  # B C H W
    return [BlockTokens(x.flatten(2).mT, (x.shape[2], x.shape[3])) for x in maps]


def check_blocks(model: nn.Module, size: tuple[int, int]) -> None:
    """Raises NothingRecordedError where the blocks of a network cannot be followed, as an empty image of `size` shows."""
    block_tokens(model, next(model.parameters()).new_zeros(1, 3, *size))


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The blocks whose outputs are looked at: those with attention, or the residual blocks of a CNN.

    Raises:
        NothingRecordedError: the network has neither.
    """
    blocks: list[nn.Module] = attention_blocks(model) if has_attention(model) else _residual_blocks(model)
    if not blocks:
        raise NothingRecordedError(
            f"{type(model).__name__} has neither blocks with attention nor residual blocks that could be followed"
        )
    return blocks


def _residual_blocks(model: nn.Module) -> list[nn.Module]:
    """The entries of the stages of a CNN, e.g. the bottlenecks of a ResNet: same-class neighbours in a sequence."""
    found: list[nn.Module] = []
    for module in model.modules():
        if isinstance(module, nn.Sequential) and len(module) > 0 and all(_is_residual(entry) for entry in module):
            found += list(module)
    return found


def _outputs_of(model: nn.Module, blocks: Sequence[nn.Module], images: Tensor) -> list[Tensor]:
    """The output of every block for these images."""
    outputs: list[Tensor] = []

    def keep(module: nn.Module, inputs: object, output: Tensor) -> None:
        outputs.append(output)

    handles = [block.register_forward_hook(keep) for block in blocks]
    try:
        with evaluation_mode(model):
            model(images)
    finally:
        for handle in handles:
            handle.remove()
    return outputs


def _is_residual(module: nn.Module) -> bool:
    """A block with convolutions of its own whose kind is named one: BasicBlock, Bottleneck, ConvNeXtBlock, ..."""
    name = type(module).__name__
    return name.endswith(("Block", "Bottleneck", "Residual")) and any(isinstance(m, nn.Conv2d) for m in module.modules())
