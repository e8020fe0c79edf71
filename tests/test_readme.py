"""What README.md and docs/ show works.

Python blocks of a page run in order, in one namespace. One that begins with `# needs` (a file, a network) is only compiled.
Shell lines that begin with `robustvit` run; the others (make, pip) install things or run these tests, so only their make
targets are checked. Of both, the fast tests run what takes long on fewer generated images than are written there.
"""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robustvit.cli import COMMANDS, main
from robustvit.evaluation.evaluate import evaluate
from robustvit.metrics.measures import measures
from robustvit.models.published import PUBLISHED
from robustvit.models.registry import create_model

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def as_written(text: str) -> str:
    return text


def on_few_images(text: str) -> str:
    """The same with one batch of 16 generated images to train on, and 4 to measure on."""
    text = re.sub(r"^(robustvit train (?!.*loop\.batch_size=).*)$", r"\1 --set loop.batch_size=16", text, flags=re.MULTILINE)
    text = re.sub(r"(?<!data\.train=)\b(scenes(?:-easy)?):\d+", r"\1:4", text)
    return re.sub(r"(data\.train=scenes(?:-easy)?):\d+", r"\1:16", text)


def page_cases(language: str) -> list[Any]:
    """Each page with its blocks as written; slow, and on few images as well, where that makes a difference."""
    cases = []
    for page in PAGES:
        if text := "".join(blocks(page, language)):
            long = on_few_images(text) != text
            cases.append(pytest.param(page, as_written, marks=[pytest.mark.slow] if long else [], id=name_of(page)))
            if long:
                cases.append(pytest.param(page, on_few_images, id=f"{name_of(page)} on few images"))
    return cases


@pytest.mark.parametrize(("page", "edited"), page_cases("python"))
def test_python_blocks_run(page: Path, edited: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    ran = 0
    for block in map(edited, blocks(page, "python")):
        code = compile(block, name_of(page), "exec")
        if not block.startswith("# needs"):
            exec(code, namespace)
            ran += 1
    assert ran > 0


@pytest.mark.parametrize(("page", "edited"), page_cases("sh"))
def test_robustvit_commands_run(
    page: Path, edited: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in edited("".join(blocks(page, "sh"))).splitlines():
        command, *arguments = shlex.split(line, comments=True)
        assert command in ("robustvit", "make", "pip")
        if command == "robustvit":
            assert main(arguments) == 0
        elif command == "make":
            assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_readme_has_the_two_commands_that_matter() -> None:
    shell = "".join(blocks(README, "sh"))
    assert "make demo" in shell
    assert "make test" in shell


def test_the_output_that_the_readme_shows_has_the_names_of_today() -> None:
    shown = re.findall(r"^│(\S[^│]*?) *│", "".join(blocks(README, "text")), re.MULTILINE)
    names = {measure.words for measure in measures()}
    assert len(shown) > 3
    assert [label for label in shown if label not in names and not re.match(r"accuracy, \w+$|\w+ - \w+$", label)] == []


def test_the_image_of_the_readme_is_drawn_from_the_results_of_its_command(tmp_path: Path) -> None:
    networks = {name: create_model(name, pretrained=True) for name in ("fan_vit_nano", "vit_nano")}
    evaluate(networks, "scenes-easy:2", ["clean", "contrast"], output=tmp_path)
    script = runpy.run_path(str(ROOT / "docs" / "images" / "overview.py"))
    script["main"](tmp_path / "results.csv", tmp_path / "overview.png")
    assert (tmp_path / "overview.png").stat().st_size > 50_000


def test_scores_of_checkpoints_are_what_the_registry_says_the_authors_report() -> None:
    columns = ("imagenet", "imagenet_c_fan17", "imagenet_c_mce", "imagenet_a", "imagenet_r", "imagenet_p_mfr")
    page = (ROOT / "docs" / "checkpoints.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)`( \*)? \|(.*)\|$", page, re.MULTILINE)
    shown = {name: (bool(star), [cell.strip() for cell in cells.split("|")]) for name, star, cells in rows}
    expected = {
        f"{w.architecture}.{w.tag}": (w.url is None, [str(w.reported.get(column, "")) for column in columns])
        for w in PUBLISHED
        if any(name.startswith("imagenet_") for name in w.reported)
    }
    assert shown == expected


def headings_of(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target, _, heading in re.findall(r"\]\((?!http)([^)#]*)(#([^)]+))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not heading or heading in headings_of(file), f"{target}#{heading}"


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", index.read_text()))
    assert listed == {page.name for page in index.parent.glob("*.md")} - {index.name}


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    assert all(f"`robustvit {name}" in page for name in COMMANDS)


def test_files_and_functions_named_in_the_docs_exist() -> None:
    for page in PAGES:
        for cells in re.findall(r"^\| [^|]+ \| ([^|]+) \| ((?:`[\w/]+\.py`(?:, )?)+) \|$", page.read_text(), re.MULTILINE):
            sources = [(ROOT / "src" / "robustvit" / file).read_text() for file in re.findall(r"`([\w/]+\.py)`", cells[1])]
            for name in re.findall(r"`(\w+)", cells[0]):
                assert any(name in source for source in sources), f"{page.name}: {name} is not in {cells[1]}"
