"""The methods by the name they have in a recipe: a table of config classes, each of which builds its method."""

from __future__ import annotations

from typing import Any

from robustvit.runtime.plugins import Registry

__all__ = ["METHODS", "method_config"]

METHODS: Registry[type[Any]] = Registry(
    "robustvit.methods",
    {
        "adl": "robustvit.methods.adl:AdlConfig",
        "afat": "robustvit.methods.afat:AfatConfig",
        "stl_labeler": "robustvit.methods.stl:LabelerConfig",
        "stl_student": "robustvit.methods.stl:StudentConfig",
        "distillation": "robustvit.methods.distillation:DistillationConfig",
        "patch_augment": "robustvit.methods.patch_augment:PatchAugmentConfig",
    },
)


def method_config(name: str) -> type[Any]:
    """The config dataclass of a method."""
    return METHODS[name]
