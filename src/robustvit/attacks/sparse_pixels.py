"""Which pixels of the chosen patches an attack may change: the best n, learned with a straight-through mask."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

__all__ = ["FROZEN_AFTER", "PixelChoice", "SparsePixels"]

PixelChoice = Literal["learned", "random"]

FROZEN_AFTER = 200
"""Iterations after which the learned choice stays."""
RATE = 1e-2


class SparsePixels:
    """The n pixels with the largest scores, of those in the patches.

    Args:
        scores: float [B, 1, H, W], uniform: without learning, the choice is random.
        patches: float [B, 1, H, W], 1 inside the patches.
        count: n.

    Raises:
        ValueError: the patches have fewer pixels.
    """

    def __init__(self, scores: Tensor, patches: Tensor, count: int) -> None:
        area = int(patches[0].sum())
        if count > area:
            raise ValueError(f"{count} pixels are more than the {area} of the patches; give fewer, or more patches")
        self.patches, self.count = patches, count
        self.scores = (scores * patches).requires_grad_()
        self.optimizer = torch.optim.Adam([self.scores], lr=RATE)

    def mask(self) -> Tensor:
        """[B, 1, H, W]: 1 for the chosen; its gradient goes to the scores as it is, inside the patches."""
        inside = self.scores * self.patches
        flat = inside.detach().masked_fill(self.patches == 0, -torch.inf).flatten(1)
        hard = torch.zeros_like(flat).scatter_(1, flat.topk(self.count, dim=1).indices, 1.0).view_as(inside)
        return hard + inside - inside.detach()

    @torch.no_grad()
    def climb(self, gradient: Tensor) -> None:
        """One step up, then scores from 1e-6 on."""
        self.scores.grad = -gradient
        self.optimizer.step()
        inside = self.scores.masked_fill(self.patches == 0, torch.inf)
        least = inside.flatten(1).min(1).values[:, None, None, None]
        self.scores.copy_((self.scores - least + 1e-6) * self.patches)
