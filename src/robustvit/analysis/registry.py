"""The studies by the name they have in `--what`: a table of classes, those of installed plug-ins included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robustvit.analysis.study import Study
from robustvit.runtime.plugins import Registry
from robustvit.runtime.spelling import nearest

__all__ = ["STUDIES", "chosen_studies", "study_of"]

STUDIES: Registry[type[Study[Any]]] = Registry(
    "robustvit.studies",
    {
        "attention": "robustvit.analysis.studies.attention:Attention",
        "stability": "robustvit.analysis.studies.stability:Stability",
        "occlusion": "robustvit.analysis.studies.occlusion:Occlusion",
        "head-diversity": "robustvit.analysis.studies.head_diversity:HeadDiversity",
        "even-attention": "robustvit.analysis.studies.even_attention:EvenAttention",
        "overfocus": "robustvit.analysis.studies.overfocus:Overfocus",
        "eigenvalues": "robustvit.analysis.studies.eigenvalues:Eigenvalues",
        "noise-decay": "robustvit.analysis.studies.noise_decay:NoiseDecay",
        "clusters": "robustvit.analysis.studies.clusters:Clusters",
        "token-labels": "robustvit.analysis.studies.token_labels:TokenLabels",
        "patch-corruption": "robustvit.analysis.studies.patch_corruption:PatchCorruption",
        "bottleneck": "robustvit.analysis.studies.bottleneck:Bottleneck",
    },
)


def study_of(name: str) -> Study[Any]:
    """The study with this name.

    Raises:
        ValueError: there is none.
    """
    if name not in STUDIES:
        hint = nearest(name, STUDIES) or f"; there are {', '.join(STUDIES)}, and all"
        raise ValueError(f"there is no analysis {name!r}{hint}")
    return STUDIES[name]()


def chosen_studies(what: Sequence[str]) -> dict[str, Study[Any]]:
    """Name -> study, of those that were asked for, each once; "all" stands for all of them.

    Raises:
        ValueError: there is no such study, or none was asked for.
    """
    if not what:
        raise ValueError(f"there is no analysis to make; choose among {', '.join(STUDIES)}, or all")
    known = {name: study_of(name) for name in what if name != "all"}
    return {name: study_of(name) for name in STUDIES} if "all" in what else known
