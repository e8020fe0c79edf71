"""What training adds to a network: ADL, AFAT, STL and others, each a method object and the equations as pure functions."""

from robustvit.methods.alignment import alignment_loss
from robustvit.methods.attention_diversification import attention_diversification
from robustvit.methods.chunked_diversification import chunked_attention_diversification
from robustvit.methods.distillation import hard_distillation, soft_distillation
from robustvit.methods.patch_augment import augment_patches
from robustvit.methods.patch_corruption import cover_patches, keep_mask
from robustvit.methods.token_labels import pooled_loss, token_loss, token_targets
from robustvit.tasks.classification import soft_cross_entropy

__all__ = [
    "alignment_loss",
    "attention_diversification",
    "augment_patches",
    "chunked_attention_diversification",
    "cover_patches",
    "hard_distillation",
    "keep_mask",
    "pooled_loss",
    "soft_cross_entropy",
    "soft_distillation",
    "token_loss",
    "token_targets",
]
