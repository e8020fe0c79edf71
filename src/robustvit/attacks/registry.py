"""Attacks by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from robustvit.attacks.attack import Attack
from robustvit.attacks.auto_attack import AutoAttackSettings
from robustvit.attacks.gradient_sign import PGD_PRESETS, PgdSettings
from robustvit.attacks.named_attacks import AdversarialPatches, AutoAttack, Fgsm, PatchFool, Pgd, RandomPatches
from robustvit.attacks.patch_fool import PatchFoolSettings
from robustvit.attacks.patches import PatchSettings
from robustvit.runtime.spelling import nearest

__all__ = ["ATTACKS", "build_attack", "options_of"]

ATTACKS: dict[str, type[Attack]] = {
    kind.name: kind for kind in (Fgsm, Pgd, PatchFool, RandomPatches, AdversarialPatches, AutoAttack)
}
"""All attacks by name."""
_SETTINGS: dict[str, type] = {
    "pgd": PgdSettings,
    "patch-fool": PatchFoolSettings,
    "patches-random": PatchSettings,
    "patches-adversarial": PatchSettings,
    "autoattack": AutoAttackSettings,
}


def options_of(name: str) -> tuple[str, ...]:
    """What `build_attack` takes for this attack."""
    own = [f.name for f in fields(ATTACKS[name]) if f.name not in ("settings", "scorer")]
    inner = [f.name for f in fields(_SETTINGS[name])] if name in _SETTINGS else []
    return (*inner, *own, *(["preset"] if name in ("fgsm", "pgd") else []))


def build_attack(name: str, options: Mapping[str, Any] | None = None) -> Attack:
    """An attack by its name.

    Args:
        name: one of `ATTACKS`.
        options: of `options_of(name)`. `preset` is a name in `PGD_PRESETS`; other values win over it.

    Raises:
        ValueError: there is no such attack, preset or option, or a value is not possible.
    """
    if name not in ATTACKS:
        hint = nearest(str(name), ATTACKS)
        raise ValueError(f"there is no attack {name!r}{hint} (choose among {', '.join(ATTACKS)})")
    given = dict(options or {})
    if wrong := [option for option in given if option not in options_of(name)]:
        raise ValueError(f"{name} has no option {wrong[0]!r}; it has {', '.join(options_of(name))}")
    if given.get("norm", "Linf") != "Linf" and "eps" not in given:
        raise ValueError(f"norm={given['norm']!r} needs an eps of its own, in pixel units over the whole picture, such as 0.5")
    if given.get("corruption_model") is not None and "fit_steps" in given:
        raise ValueError("fit_steps has no effect with a corruption_model, which is trained already; give one of them")
    preset = _preset(given.pop("preset", None))
    if name == "fgsm":
        return Fgsm(**{"eps": preset.eps, **given})
    if name == "pgd":
        return Pgd(replace(preset, **given))
    inner = {f.name for f in fields(_SETTINGS[name])}
    settings = _SETTINGS[name](**{key: value for key, value in given.items() if key in inner})
    return ATTACKS[name](settings, **{key: value for key, value in given.items() if key not in inner})  # type: ignore[call-arg]


def _preset(name: str | None) -> PgdSettings:
    if name is not None and name not in PGD_PRESETS:
        raise ValueError(f"there is no preset {name!r}; choose one of {', '.join(PGD_PRESETS)}")
    return PGD_PRESETS[name or "rvt"]
