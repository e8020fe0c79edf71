"""Attacks on classifiers: functions of pixels in 0 .. 1, with the network's normalisation inside (`PixelNetwork`)."""

from robustvit.attacks.attack import Attack
from robustvit.attacks.auto_attack import AutoAttackSettings, auto_attack
from robustvit.attacks.chosen_patches import cover_adversarial, fit_scorer
from robustvit.attacks.gradient_sign import PGD_PRESETS, PgdSettings, fgsm, pgd
from robustvit.attacks.patch_fool import PatchFoolSettings, choose_patches, patch_fool
from robustvit.attacks.patches import PatchSettings, cover_random
from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.attacks.registry import ATTACKS, build_attack
from robustvit.methods.patch_corruption import load_scorer

__all__ = [
    "ATTACKS",
    "PGD_PRESETS",
    "Attack",
    "AutoAttackSettings",
    "PatchFoolSettings",
    "PatchSettings",
    "PgdSettings",
    "PixelNetwork",
    "auto_attack",
    "build_attack",
    "choose_patches",
    "cover_adversarial",
    "cover_random",
    "fgsm",
    "fit_scorer",
    "load_scorer",
    "patch_fool",
    "pgd",
]
