"""The embedded dataset: generated images of textured shapes on cluttered grounds, each a function of (seed, index)."""

from robustvit.data.scenes.dataset import Scenes
from robustvit.data.scenes.layout import Hints

__all__ = ["Hints", "Scenes"]
