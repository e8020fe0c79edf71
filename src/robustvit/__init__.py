"""Vision transformers that keep working when the picture does not.

`import robustvit` is cheap: names are imported when first used, and our networks are registered with timm.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

from robustvit._timm import register_with_timm
from robustvit.runtime.measure_homes import register_measure_home
from robustvit.runtime.page_writers import register_page_writer

if TYPE_CHECKING:
    from robustvit import attacks, methods
    from robustvit.analysis.analyze import analyze
    from robustvit.corruptions.registry import CORRUPTIONS, corrupt, corruption_names
    from robustvit.evaluation.evaluate import evaluate
    from robustvit.evaluation.results import Results
    from robustvit.models.fusing import fuse
    from robustvit.models.heads.token_head import fuse_token_logits
    from robustvit.models.names import OFFICIAL
    from robustvit.models.official import from_official
    from robustvit.models.registry import create_model, list_models
    from robustvit.predicting.predict import predict
    from robustvit.recording.tape import NothingRecordedError, Tape, record
    from robustvit.runtime.kept_memory import keep_memory
    from robustvit.runtime.weights import CheckpointError, read_weights
    from robustvit.training.config import TrainConfig
    from robustvit.training.config_io import load_config
    from robustvit.training.train import train

_HOME = {
    "CORRUPTIONS": "corruptions.registry",
    "OFFICIAL": "models.names",
    "CheckpointError": "runtime.weights",
    "NothingRecordedError": "recording",
    "Results": "evaluation.results",
    "Tape": "recording",
    "TrainConfig": "training.config",
    "analyze": "analysis.analyze",
    "corrupt": "corruptions.registry",
    "corruption_names": "corruptions.registry",
    "create_model": "models.registry",
    "evaluate": "evaluation.evaluate",
    "from_official": "models.official",
    "fuse": "models.fusing",
    "fuse_token_logits": "models.heads.token_head",
    "keep_memory": "runtime.kept_memory",
    "list_models": "models.registry",
    "load_config": "training.config_io",
    "predict": "predicting.predict",
    "read_weights": "runtime.weights",
    "record": "recording",
    "train": "training.train",
}

__all__ = [
    "CORRUPTIONS",
    "OFFICIAL",
    "CheckpointError",
    "NothingRecordedError",
    "Results",
    "Tape",
    "TrainConfig",
    "analyze",
    "attacks",
    "corrupt",
    "corruption_names",
    "create_model",
    "evaluate",
    "from_official",
    "fuse",
    "fuse_token_logits",
    "keep_memory",
    "list_models",
    "load_config",
    "methods",
    "predict",
    "read_weights",
    "record",
    "train",
]
_PACKAGES = ("attacks", "methods")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("robustvit")
    if name in _PACKAGES:
        return importlib.import_module(f"robustvit.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'robustvit' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"robustvit.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


register_with_timm()
register_measure_home("robustvit.evaluation.suites.registry:load_suites")
register_measure_home("robustvit.attacks.registry:register_measures")
register_page_writer("results", "robustvit.report.page:write_page")
register_page_writer("analysis", "robustvit.report.analysis_page:write_analysis")
register_page_writer("training", "robustvit.report.training_figure:save_training_figure")
register_page_writer("sweep", "robustvit.report.sweep_figure:save_sweep_figure")
