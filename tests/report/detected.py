"""Two detectors that need no training through a real evaluation, for tests of its page."""

from __future__ import annotations

from known_objects import Knowing

import robustvit as rv
from robustvit.data.object_layouts import open_objects
from robustvit.evaluation.results import Results

DATA, SIZE = "scenes-easy:5", (64, 64)


def detected() -> Results:
    """Clean, and under COCO-C at one severity."""
    samples = open_objects(DATA, scene_size=SIZE)
    networks = {"sighted": Knowing(samples), "half blind": Knowing(samples, blind_to=int(samples.at(0).target().classes[0]))}
    return rv.evaluate(networks, DATA, ["clean", "coco-c"], task="detection", severity=3, size=SIZE, examples=4)
