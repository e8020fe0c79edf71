"""How the tokens of a classifier take part in its answer.

Imports torch only where it needs it: the command line reads its flag from `ClassRule` before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["ClassRule"]


@dataclass(frozen=True)
class ClassRule:
    """From what a classifier computes to the logits of an image.

    Attributes:
        token_fusion: add half of the largest token logit of each class, as STL's published evaluation does, of which its paper
            says nothing; the network needs a token head.
    """

    token_fusion: bool = False

    def logits(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """[B, K], from normalised inputs [B, 3, H, W].

        Raises:
            ValueError: the network is no classifier, or has no token head and the rule needs one.
        """
        from robustvit.models.class_logits import class_logits
        from robustvit.models.heads.token_head import fuse_token_logits

        if not self.token_fusion:
            return class_logits(network(inputs), network, len(inputs))
        self.check(network)
        return fuse_token_logits(*network.forward_tokens(inputs))  # type: ignore[operator]

    def check(self, network: nn.Module) -> None:
        """Raises ValueError where the network lacks what the rule needs."""
        from robustvit.models.heads.token_head import has_token_head

        if self.token_fusion and not has_token_head(network):
            raise ValueError(
                f"token_fusion adds token logits to class logits, and {type(network).__name__} has no token head; leave it "
                "out, or build the network with token_head=True (as the labelers and students of STL are)"
            )

    def describe(self, network: nn.Module) -> dict[str, str]:
        """What results say about the rule; empty of a network without a token head, which has only one."""
        from robustvit.models.heads.token_head import has_token_head

        if not has_token_head(network):
            return {}
        is_fused = self.token_fusion or bool(getattr(network, "token_fusion", False))
        fused = "class logits + 0.5 * largest token logit (STL's published evaluation)"
        return {"answer": fused if is_fused else "class logits alone"}
