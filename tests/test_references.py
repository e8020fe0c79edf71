"""References lead somewhere: a page that any file of the project names is a page of the project."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "benchmarks", "docs")
SUFFIXES = (".py", ".md", ".yaml", ".toml")
WRITTEN = {"sweep.md", "gains.md"}
"""Pages that commands write into folders of the user."""
STRINGS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def prose_of(path: Path) -> str:
    """The whole text of a page or a configuration; of Python the comments, and the strings of more than one word."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(token.string for token in tokens if token.type in STRINGS and " " in token.string.strip())


def missing_pages(path: Path) -> list[str]:
    """Pages named in the file that exist neither from the root of the project nor from the file's own folder.

    A link in Markdown, `[STL](stl.md)`, may also lead to a page beside those of docs/, for which such text is written.
    """
    prose = prose_of(path)
    linked = set(re.findall(r"\]\(([\w./-]+\.md)\b", prose))
    cited = {page for page in re.findall(r"[\w./-]+\.md\b", prose) if Path(page).name not in WRITTEN}
    places = {page: [ROOT, path.parent, *([ROOT / "docs"] if page in linked else [])] for page in cited}
    return sorted(page for page in cited if not any((place / page).is_file() for place in places[page]))


def written_files() -> list[Path]:
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    return sorted([*inside, *(path for path in ROOT.iterdir() if path.suffix in SUFFIXES)])


def test_pages_that_are_named_exist() -> None:
    missing = {str(path.relative_to(ROOT)): pages for path in written_files() if (pages := missing_pages(path))}
    assert not missing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""See `PAGE` 7."""\n', ["PAGE"]),
        ("x = 1  # equation of PAGE\n", ["PAGE"]),
        ('x = f"{1} as docs/PAGE says"\n', ["docs/PAGE"]),
        ('"""See docs/index.md."""\n', []),
        ('page = "PAGE"\n', []),
    ],
)
def test_a_page_outside_the_project_is_noticed(text: str, expected: list[str], tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text(text.replace("PAGE", "nowhere" + ".md"))
    assert [page.replace("nowhere" + ".md", "PAGE") for page in missing_pages(file)] == expected
