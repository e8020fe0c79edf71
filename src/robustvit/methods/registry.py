"""The methods by the name they have in a recipe: a table of config classes, each of which builds its method."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["METHODS", "method_config"]

METHODS = {
    "adl": "robustvit.methods.adl:AdlConfig",
    "afat": "robustvit.methods.afat:AfatConfig",
    "stl_labeler": "robustvit.methods.stl:LabelerConfig",
    "stl_student": "robustvit.methods.stl:StudentConfig",
    "distillation": "robustvit.methods.distillation:DistillationConfig",
    "patch_augment": "robustvit.methods.patch_augment:PatchAugmentConfig",
}


def method_config(name: str) -> type[Any]:
    """The config dataclass of a method."""
    module, _, attribute = METHODS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
