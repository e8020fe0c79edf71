"""Does attention matter? What a classifier still answers when its image tokens attend evenly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from timm.models.swin_transformer import WindowAttention
from torch import Tensor, nn

from robustvit.analysis.attention_chunks import check_attention
from robustvit.analysis.batches import Images, image_batches
from robustvit.recording.tape import attention_blocks, prefix_tokens_of, unfused
from robustvit.runtime.evaluation_mode import evaluation_mode

__all__ = ["EvenAttention", "even_answers", "evenly", "spread_evenly"]

DEFINITION = (
    "in the rows of the image tokens, what a query gives to image tokens is spread evenly over those that it can see; what it "
    "gives to prefix tokens, and the rows of these, stay; in all blocks, and in each block alone"
)


def spread_evenly(A: Tensor, prefix_tokens: int, visible: Tensor | None = None) -> Tensor:
    """The map with even rows for image tokens; sums of rows stay.

    Args:
        A: [B, heads, N, N] after softmax; Swin: [B * windows, heads, M, M].
        prefix_tokens: in front of the image tokens.
        visible: bool [windows, M, M], which keys a query can see in Swin's shifted windows, padding among them; None for all.
    """
    p = prefix_tokens
    mass = A[:, :, p:, p:].sum(-1, keepdim=True)  # B h n 1
    if visible is None:
        even = (mass / (A.shape[-1] - p)).expand_as(A[:, :, p:, p:])
    else:
        seen = visible.to(A.dtype)
        shares = seen / seen.sum(-1, keepdim=True)  # W M M
        even = (mass.unflatten(0, (-1, len(shares))) * shares[:, None]).flatten(0, 1)
    spread = A.clone()
    spread[:, :, p:, p:] = even
    return spread


@contextmanager
def evenly(model: nn.Module, blocks: Sequence[int] | None = None) -> Iterator[None]:
    """The network attends evenly inside, in all blocks or in those with these indices; left as it was.

    Raises:
        NothingRecordedError: it has no attention that can be reached.
    """
    known = attention_blocks(model)
    prefix = prefix_tokens_of(model)
    with ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        for block in known if blocks is None else [known[i] for i in blocks]:
            stack.enter_context(unfused(block.attn))
            masks: list[Tensor | None] = [None]
            if isinstance(block.attn, WindowAttention):
                note = partial(_note_mask, masks)
                stack.callback(block.attn.register_forward_pre_hook(note, with_kwargs=True).remove)
            stack.callback(block.attn.attn_drop.register_forward_hook(partial(_spread, masks, prefix)).remove)
        yield


def _note_mask(masks: list[Tensor | None], module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
    given = [value for value in (*inputs[1:], *options.values()) if isinstance(value, Tensor)]
    masks[0] = given[0] if given else None


def _spread(masks: list[Tensor | None], prefix: int, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return spread_evenly(output, prefix, None if masks[0] is None else masks[0] == 0)


@dataclass(frozen=True)
class EvenAttention:
    """Answers [images]: the best class of every image.

    Attributes:
        usual: of the network as it is.
        even: with even attention in all blocks.
        of_blocks: [blocks, images], with even attention in one block.
    """

    usual: Tensor
    even: Tensor
    of_blocks: Tensor


@torch.no_grad()
def even_answers(model: nn.Module, images: Images) -> EvenAttention:
    """What a classifier answers with its own attention and with even attention.

    Args:
        model: images -> logits; evaluated as it is, and left so.
        images: normalised [B, 3, H, W]: a batch, or batches.

    Raises:
        ValueError: there are no images.
    """
    found: list[Tensor] = []
    with evaluation_mode(model):
        ways: list[Sequence[int] | None] = [None, *([i] for i in range(len(attention_blocks(model))))]
        for batch in image_batches(images):
            if not found:
                check_attention(model, (batch.shape[-2], batch.shape[-1]))
            answers = [model(batch).argmax(-1).cpu()]
            for blocks in ways:
                with evenly(model, blocks):
                    answers.append(model(batch).argmax(-1).cpu())
            found.append(torch.stack(answers))
    answers_of_all = torch.cat(found, dim=1)
    return EvenAttention(answers_of_all[0], answers_of_all[1], answers_of_all[2:])
