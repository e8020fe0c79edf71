"""`robustvit recipes`: what `robustvit train` and `robustvit sweep` take by name."""

from __future__ import annotations

from typing import Annotated

import tyro

from robustvit.cli.console import print_json, tables

__all__ = ["recipes"]


def recipes(*, as_json: Annotated[bool, tyro.conf.arg(name="json")] = False) -> None:
    """List the recipes of the package, one per published result: `robustvit train NAME`.

    Args:
        as_json: print JSON.
    """
    from rich.table import Table

    from robustvit.training.recipes import packaged_recipes

    found = packaged_recipes()
    if as_json:
        print_json([vars(recipe) for recipe in found])
        return
    table = Table(header_style="bold", pad_edge=False)
    for heading in ("recipe", "what", "expected"):
        table.add_column(heading)
    for recipe in found:
        table.add_row(recipe.name, recipe.title, recipe.expected)
    tables().print(table, markup=False)
