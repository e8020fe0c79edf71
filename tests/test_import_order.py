"""The rooms of the package: imports go one way, and CONTRIBUTING.md shows the order and a true map of the folders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "robustvit"
DRAWING_ROOMS = {"report", "demo", "cli"}
"""The only ones that import `report`."""

Edge = tuple[str, str, int]


def _module(path: Path) -> str:
    parts = ("robustvit", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _imports(module: str, *, with_types: bool = True) -> Iterator[tuple[str, int]]:
    """(imported module of the package, line), inside functions too; `with_types`: also what only the type checker sees."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    unseen = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in unseen and not with_types:
            continue
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}:{node.lineno} has a relative import; write the whole name"
            assert node.module is not None
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                yield (name if name in MODULES else node.module), node.lineno
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)


def _edges(*, with_types: bool = True) -> list[Edge]:
    return [
        (module, target, line)
        for module in MODULES
        for target, line in _imports(module, with_types=with_types)
        if target.split(".")[0] == "robustvit" and target != module
    ]


def _room(module: str) -> str:
    return ([*module.split("."), ""])[1]


def _map() -> list[str]:
    """The rooms as CONTRIBUTING.md lists them, from the foundation up, with the folders inside them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = text.split("## The rooms", 1)[1].split("```")[1]
    return re.findall(r"^([a-z_/]+/) ", block, flags=re.MULTILINE)


ROOMS = [folder.rstrip("/") for folder in _map() if folder.count("/") == 1]


def test_the_map_in_contributing_shows_the_folders_that_exist() -> None:
    folders = {path.parent.relative_to(PACKAGE).as_posix() + "/" for path in PACKAGE.rglob("*.py")} - {"./"}
    assert set(_map()) - {"recipes/"} == folders
    assert (PACKAGE / "recipes").is_dir()


def test_a_room_imports_only_rooms_below_it() -> None:
    order = {room: place for place, room in enumerate(ROOMS)}
    wrong = [
        f"{module} (line {line}) imports {target}: {_room(target)} stands above {_room(module)}"
        for module, target, line in _edges()
        if _room(module) in order and order.get(_room(target), -1) > order[_room(module)]
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_top_imports_the_public_package() -> None:
    """`robustvit` itself offers names of all rooms, so a room that imports it would import upwards."""
    allowed = {"robustvit.cli", "robustvit.cli.console"}
    wrong = [f"{module}:{line}" for module, target, line in _edges() if target == "robustvit" and module not in allowed]
    assert not wrong, wrong


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for module, target, _ in _edges(with_types=False):
        if module != "robustvit" and target != "robustvit" and not module.startswith(f"{target}."):
            graph[module].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other in a circle: {' <- '.join(error.args[1])}")


def test_only_commands_and_the_demo_import_the_report() -> None:
    wrong = [
        f"{m} (line {line}) imports {t}" for m, t, line in _edges() if _room(t) == "report" and _room(m) not in DRAWING_ROOMS
    ]
    assert not wrong, "\n".join(wrong)
