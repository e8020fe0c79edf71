"""The recipes of the package, found by name from any folder: `fan/vit_tiny`.

Each is the YAML file of one published result. Files that begin with `_` hold what several recipes share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Recipe", "find_recipe", "packaged_recipes"]

FOLDER = Path(__file__).parents[1] / "recipes"


@dataclass(frozen=True)
class Recipe:
    """One recipe of the package.

    Attributes:
        name: what `robustvit train` takes, "fan/vit_tiny".
        file: where it is.
        title: network and data in a few words.
        expected: the scores that the paper prints.
    """

    name: str
    file: Path
    title: str
    expected: str


def packaged_recipes() -> list[Recipe]:
    """All recipes of the package, by name; without the files that they share."""
    return [_described(name, file) for name, file in sorted(_files().items()) if not file.name.startswith("_")]


def _files() -> dict[str, Path]:
    return {file.relative_to(FOLDER).with_suffix("").as_posix(): file for file in FOLDER.rglob("*.yaml")}


def _described(name: str, file: Path) -> Recipe:
    comment = re.match(r"(?:#.*\n)*", file.read_text(encoding="utf-8"))
    text = re.sub(r"^# ?", "", comment[0] if comment else "", flags=re.MULTILINE)
    expected = re.search(r"^expected: (.*(?:\n .*)*)", text, re.MULTILINE)
    return Recipe(name, file, text.partition("\n")[0].rstrip("."), " ".join(expected[1].split()) if expected else "")


def find_recipe(recipe: str | Path, beside: Path | None = None) -> Path:
    """The file of a recipe.

    Args:
        recipe: a path, or the name of a recipe of the package, with or without ".yaml".
        beside: folder that a path is relative to, instead of the working directory.

    Raises:
        FileNotFoundError: there is neither; the message has the nearest names.
    """
    path = Path(recipe) if beside is None else beside / recipe
    if path.is_file():
        return path
    known, name = _files(), Path(recipe).as_posix().removesuffix(".yaml")
    if name in known:
        return known[name]
    from robustvit.runtime.spelling import nearest  # imports timm, which listing recipes does not need

    public = [found for found, file in known.items() if not file.name.startswith("_")]
    if inside := sorted(found for found in public if found.startswith(f"{name.rstrip('/')}/")):
        raise FileNotFoundError(f"there is no recipe {recipe}, but there are {', '.join(inside)}")
    hint = nearest(name, public) or "; give a YAML file, or a name that `robustvit recipes` lists"
    raise FileNotFoundError(f"there is no recipe {recipe}{hint}")
