"""Attacks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robustvit.attacks.attack import Attack
from robustvit.runtime.plugins import Registry
from robustvit.runtime.spelling import nearest
from robustvit.tasks.registry import TASKS

__all__ = ["ATTACKS", "build_attack", "register_measures"]

ATTACKS: Registry[type[Attack]] = Registry(
    "robustvit.attacks",
    {
        "fgsm": "robustvit.attacks.gradient_sign:Fgsm",
        "pgd": "robustvit.attacks.gradient_sign:Pgd",
        "patch-fool": "robustvit.attacks.patch_fool:PatchFool",
        "patches-random": "robustvit.attacks.patches:RandomPatches",
        "patches-adversarial": "robustvit.attacks.chosen_patches:AdversarialPatches",
        "autoattack": "robustvit.attacks.auto_attack:AutoAttack",
    },
)
"""All attacks by name, those of plug-ins last."""


def build_attack(name: str, options: Mapping[str, Any] | None = None) -> Attack:
    """An attack by its name.

    Args:
        name: one of `ATTACKS`.
        options: of `ATTACKS[name].options()`. `preset` is a name in its presets; other values win over it.

    Raises:
        ValueError: there is no such attack, preset or option, or a value is not possible.
    """
    if name not in ATTACKS:
        hint = nearest(str(name), ATTACKS)
        raise ValueError(f"there is no attack {name!r}{hint} (choose among {', '.join(ATTACKS)})")
    return ATTACKS[name].from_options(options or {})


def register_measures() -> None:
    """Imports all attacks, which registers their measures, and those of every task that they can be made in."""
    for attack in ATTACKS.values():
        for name, task in TASKS.items():
            if task.can_be_attacked and (not attack.tasks or name in attack.tasks):
                attack.score_measure(task.primary)
