"""What a user can say about a task besides its name, as dataclasses by that name.

The command line makes flags of their fields before torch is imported, so these dataclasses are in modules that import it
later. Those of outside packages are entry points, named like their task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robustvit.runtime.plugins import Registry

if TYPE_CHECKING:
    from robustvit.tasks.prediction_form import PredictionForm

__all__ = ["PREDICTION_FORMS", "TASK_OPTIONS"]

TASK_OPTIONS: Registry[type[Any]] = Registry(
    "robustvit.task_options",
    {
        "classification": "robustvit.tasks.class_rule:ClassRule",
        "segmentation": "robustvit.tasks.windows:Inference",
        "detection": "robustvit.tasks.detector_inputs:DetectorInputs",
    },
)
"""How a network is asked; `Task.with_options` takes their fields."""
PREDICTION_FORMS: Registry[type[PredictionForm]] = Registry(
    "robustvit.prediction_forms",
    {
        "classification": "robustvit.tasks.class_form:ClassForm",
        "segmentation": "robustvit.tasks.map_form:MapForm",
        "detection": "robustvit.tasks.box_form:BoxForm",
    },
)
"""What predictions look like as files and rows."""
