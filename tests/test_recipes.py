"""Recipes: they can be read, say what they are for, and stand in the tables of docs/."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import timm
import yaml

import robustvit  # noqa: F401  registers the networks with timm
from robustvit.cli import main
from robustvit.models.dense_names import is_dense
from robustvit.models.names import OFFICIAL
from robustvit.models.registry import create_model
from robustvit.recording.block_shapes import BlockShape, block_shapes
from robustvit.training.augment.mixing import count_groups, is_mixing
from robustvit.training.config import TrainConfig
from robustvit.training.config_io import load_config
from robustvit.training.metrics_log import read_metrics
from robustvit.training.networks import model_options
from robustvit.training.recipes import find_recipe
from robustvit.training.train import train

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "robustvit" / "recipes"
FILES = sorted(FOLDER.rglob("*.yaml"))
RECIPES = [file for file in FILES if not file.name.startswith("_")]
"""Files that begin with _ are what recipes share, and no result of their own."""
HEADINGS = ("command", "hardware", "expected", "paper", "differs")


def name_of(file: Path) -> str:
    return file.relative_to(FOLDER).with_suffix("").as_posix()


def header(file: Path) -> dict[str, str]:
    """The text under each heading of the comment in front of a recipe; indented lines go on with the heading above."""
    found: dict[str, str] = {}
    heading = ""
    for line in file.read_text().splitlines():
        if not line.startswith("#"):
            break
        if started := re.match(rf"# ({'|'.join(HEADINGS)}): (.*)", line):
            heading = started[1]
            found[heading] = started[2]
        elif heading:
            assert line.startswith("#   "), f"{file.name}: {line!r} belongs to no heading"
            found[heading] += "\n" + line[4:]
    return found


def command(file: Path) -> list[str]:
    single = header(file)["command"].split("\non the published hardware: ")[0]
    return shlex.split(single.replace("\n", " "))


@cache
def loaded(file: Path, *, twin: bool = False) -> TrainConfig:
    return load_config(file, twin=twin)


def networks(config: TrainConfig) -> list[str]:
    named = [config.model.name]
    for options in config.methods.values():
        named += [getattr(options, field) for field in ("labeler", "teacher") if getattr(options, field, "")]
    return named


def is_known(network: str) -> bool:
    return timm.is_model(network) or network in OFFICIAL or is_dense(network)


def strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for entry in value.values() for text in strings(entry)]
    if isinstance(value, list):
        return [text for entry in value for text in strings(entry)]
    return [value] if isinstance(value, str) else []


def test_every_line_of_research_has_recipes() -> None:
    assert {file.parent.name for file in RECIPES} == {"afat", "fan", "rvt", "stl", "tapadl"}


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_what_a_recipe_extends_is_a_shared_file(file: Path) -> None:
    base = re.search(r"^extends: (.*)$", file.read_text(), re.MULTILINE)
    assert base is None or ((file.parent / base[1]).resolve() in FILES and Path(base[1]).name.startswith("_"))
    assert base is not None or file.name in ("_imagenet.yaml", "_cityscapes.yaml", "_coco.yaml")


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_no_recipe_names_a_place_of_one_machine(file: Path) -> None:
    assert not [text for text in strings(yaml.safe_load(file.read_text())) if text.startswith(("/", "~"))]


@pytest.mark.parametrize("file", RECIPES, ids=name_of)
def test_header_has_all_headings_in_order(file: Path) -> None:
    assert file.read_text().startswith("# ")
    assert tuple(header(file)) == HEADINGS
    assert all(text.strip() for text in header(file).values())


@pytest.mark.parametrize("file", RECIPES, ids=name_of)
def test_command_trains_this_recipe_with_changes_that_it_knows(file: Path) -> None:
    program, verb, recipe, *options = command(file)
    assert (program, verb, find_recipe(recipe)) == ("robustvit", "train", file)
    changes = [value for flag, value in zip(options[::2], options[1::2], strict=True) if flag == "--set"]
    assert changes
    assert set(options[::2]) == {"--set", "--output"}
    load_config(file, changes)


@pytest.mark.parametrize("file", RECIPES, ids=name_of)
def test_changes_named_in_the_header_are_known(file: Path) -> None:
    for change in re.findall(r"--set\s+([\w.]+=[\w\[\]-]+)", header(file)["differs"]):
        load_config(file, [change])  # one by one: `methods.afat=null` would hide what stands before it


@pytest.mark.parametrize("file", RECIPES, ids=name_of)
def test_networks_of_recipe_and_twin_exist(file: Path) -> None:
    for twin in (False, True):
        assert all(is_known(network) for network in networks(loaded(file, twin=twin)))


@pytest.mark.parametrize("file", RECIPES, ids=name_of)
def test_twin_is_small_and_has_the_same_methods(file: Path) -> None:
    full, twin = loaded(file), loaded(file, twin=True)
    assert twin.methods.keys() == full.methods.keys()
    assert (twin.model.tap, twin.model.token_head) == (full.model.tap, full.model.token_head)
    assert twin.data.train.startswith("scenes:")
    assert twin.loop.batch_size * twin.loop.max_updates <= 16
    assert twin.loop.device == "cpu"
    assert not twin.loop.sync_batchnorm  # which several processes without GPUs cannot have


@pytest.mark.parametrize("file", RECIPES, ids=name_of)
def test_batch_is_what_the_published_hardware_takes(file: Path) -> None:
    said = re.search(r"(\d+) GPUs with (\d+) (pictures?) each", header(file)["hardware"])
    assert said is not None
    assert said[3] == ("picture" if said[2] == "1" else "pictures")
    assert int(said[1]) * int(said[2]) == loaded(file).loop.batch_size
    launch = header(file)["command"].split("on the published hardware: ")[1]
    nodes, processes = (re.search(rf"--{flag} (\d+)", launch) for flag in ("nnodes", "nproc-per-node"))
    assert processes is not None
    assert (int(nodes[1]) if nodes else 1) * int(processes[1]) == int(said[1])


@pytest.mark.parametrize("file", RECIPES, ids=name_of)
def test_images_are_mixed_in_groups_of_what_a_published_gpu_has(file: Path) -> None:
    said = re.search(r"\d+ GPUs with (\d+) pictures? each", header(file)["hardware"])
    assert said is not None
    config = loaded(file)
    assert config.augment.mix_group == (int(said[1]) if is_mixing(config.augment) else 0)
    assert count_groups(loaded(file, twin=True).augment, 8) in (0, 1)  # a twin's batch is smaller than a group


def test_the_rate_lags_an_epoch_where_the_program_of_rvt_trains() -> None:
    late = {name_of(file) for file in RECIPES if loaded(file).schedule.lag_epochs}
    assert late == {name_of(file) for file in RECIPES if re.search(r"^rvt/|/rvt_|/cifar", name_of(file))}
    assert {loaded(FOLDER / f"{name}.yaml").schedule.lag_epochs for name in late} == {1}


@pytest.mark.parametrize("file", [f for f in RECIPES if f.parent.name == "stl" and "student" in f.name], ids=name_of)
def test_a_student_finds_its_labeler_where_stage_1_puts_it(file: Path) -> None:
    student = loaded(file).methods["stl_student"]
    labeler = FOLDER / "stl" / f"labeler_{student.labeler.removeprefix('fan_hybrid_')}.yaml"
    assert student.checkpoint == command(labeler)[-1]
    assert loaded(labeler).model.name == student.labeler


@pytest.mark.parametrize(
    ("network", "millions", "printed"),
    [
        ("resnet50", 23.5, 23.5),
        ("swin_tiny", 27.5, 27.6),
        ("deit_small", 21.7, 21.7),
        ("convit_small", 27.3, 27.4),
        ("fan_hybrid_small", 25.7, 25.7),
        ("rvt_small", 22.9, 23.0),
    ],
)
def test_networks_on_cifar_10_have_the_size_of_table_1_of_afat(network: str, millions: float, printed: float) -> None:
    config = load_config(f"afat/cifar10_{network}").model
    size = sum(p.numel() for p in create_model(config.name, device="meta", **model_options(config, 10)).parameters())
    assert round(size / 1e6, 1) == millions
    assert abs(millions - printed) < 0.11


@pytest.mark.parametrize("classes", [10, 100])
def test_the_baselines_of_afat_share_all_but_afat(classes: int) -> None:
    ours = load_config(f"afat/cifar{classes}_rvt_small", ["methods.afat=null"])
    for name in ("resnet50", "deit_small", "swin_tiny", "convit_small"):
        other = load_config(f"afat/cifar{classes}_{name}")
        for part in ("data", "augment", "loss", "optimizer", "schedule", "loop", "methods"):
            assert getattr(other, part) == getattr(ours, part), (name, part)


def test_eight_blocks_of_fan_table_2_are_wide() -> None:
    """More blocks come with fewer channels: 8 of width 768 become 12 of width 384."""
    sizes = []
    for name in ("fan/deit_small_8_blocks", "fan/deit_small"):
        config = load_config(name).model
        network = create_model(config.name, device="meta", **model_options(config, 1000))
        hidden = network.blocks[0].mlp.fc1.out_features / network.embed_dim
        sizes.append((*block_shapes(network), hidden, sum(p.numel() for p in network.parameters())))
    assert sizes == [(BlockShape(8, 768, 8), 3, 48_772_840), (BlockShape(12, 384, 6), 4, 22_050_664)]


def test_no_two_recipes_write_to_the_same_folder() -> None:
    outputs = [command(file)[-1] for file in RECIPES]
    assert len(set(outputs)) == len(outputs)


def test_the_page_of_recipes_lists_each_with_its_score() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+/\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))
    expected = {name_of(file): " ".join(header(file)["expected"].split()) for file in RECIPES}
    assert listed == expected


@pytest.mark.parametrize(
    ("section", "items"),
    [
        ("FAN", [*(f"Table {i}" for i in range(1, 15)), *(f"Figure {i}" for i in range(1, 10))]),
        ("TAP and ADL", [*(f"Table {i}" for i in range(1, 8)), *(f"Figure {i}" for i in range(1, 8))]),
        (
            "TAP and ADL, supplement",
            [
                f"{kind} {i}"
                for kind, count in (("Table", 5), ("Figure", 6))
                for i in ("I", "II", "III", "IV", "V", "VI")[:count]
            ],
        ),
        ("STL", [*(f"Table {i}" for i in range(1, 11)), *(f"Figure {i}" for i in range(1, 5))]),
        ("AFAT", [*(f"Table {i}" for i in range(1, 7)), *(f"Figure {i}" for i in range(1, 10))]),
    ],
)
def test_the_page_of_papers_has_a_row_for_every_table_and_figure(section: str, items: list[str]) -> None:
    page = (ROOT / "docs" / "papers.md").read_text()
    text = re.search(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert text is not None
    rows = re.findall(r"^\| ((?:Table|Figure) \w+) \| .+ \| .+ \| (?:done|later|not planned).* \|$", text[1], re.MULTILINE)
    assert rows == items


def test_recipes_named_in_the_docs_exist() -> None:
    for page in ("papers.md", "recipes.md", "sweeping.md", "stl.md", "training.md"):
        named = re.findall(r"\b(?:afat|fan|rvt|stl|tapadl)/\w+", (ROOT / "docs" / page).read_text())
        assert named, page
        for name in named:
            assert FOLDER / f"{name}.yaml" in FILES, f"{page}: {name}"


def test_recipes_are_found_by_name_from_any_folder_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config("fan/vit_tiny") == load_config("fan/vit_tiny.yaml") == loaded(FOLDER / "fan" / "vit_tiny.yaml")
    assert main(["recipes", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == [name_of(file) for file in RECIPES]
    assert {entry["name"]: entry["expected"] for entry in listed} == {
        name_of(file): " ".join(header(file)["expected"].split()) for file in RECIPES
    }


def test_a_file_of_ones_own_comes_first_and_may_extend_a_recipe_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("extends: fan/vit_tiny\nloop: {seed: 7}\n")
    mine = load_config("mine.yaml")
    assert (mine.model.name, mine.loop.seed) == ("fan_vit_tiny", 7)
    (tmp_path / "fan").mkdir()
    (tmp_path / "fan" / "vit_tiny.yaml").write_text("model: {name: vit_nano}\n")
    assert load_config("fan/vit_tiny.yaml").model.name == "vit_nano"
    assert load_config("mine.yaml").model.name == "fan_vit_tiny"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("fan/vit_tyni", "fan/vit_tiny"),
        ("recipes/fan/vit_tiny.yaml", "fan/vit_tiny"),
        ("fan", "fan/vit_tiny"),
        ("qqqqqq", "robustvit recipes"),
    ],
)
def test_an_unknown_recipe_names_near_ones(given: str, told: str) -> None:
    with pytest.raises(FileNotFoundError, match=told):
        load_config(given)


def _parts(file: Path) -> list[tuple[str, object]]:
    """What the twin of a recipe is made of: another twin with the same parts is the same program with other numbers."""
    config = loaded(file, twin=True)
    model = config.model
    switches = [("tap", model.tap), ("token head", model.token_head), ("deepaugment", config.augment.deepaugment)]
    return [
        ("line of research", file.parent.name),
        ("network", model.name),
        *((name, value) for name, value in switches if value),
        *(("option", option) for option in model.options),
        *(("method", method) for method in config.methods),
    ]


_FIRST_WITH_A_PART = {part: file for file in reversed(RECIPES) for part in _parts(file)}.values()
_TWINS = [
    pytest.param(file, marks=[] if file in _FIRST_WITH_A_PART else pytest.mark.slow, id=name_of(file)) for file in RECIPES
]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("file", _TWINS)
def test_the_twin_trains(file: Path, tmp_path: Path) -> None:
    config = load_config(file, twin=True)
    result = train(config, tmp_path / "run")
    assert result.is_finished
    entries = read_metrics(tmp_path / "run" / "metrics.jsonl")
    terms = {name for entry in entries for name in entry.get("terms", {})}
    if config.task == "detection":
        assert {name for name in terms if "mask" in name}  # outlines are learned, too
    else:
        assert terms == {"ce", *load_config(file).methods}  # every method of the recipe is on


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["fan/segformer_tiny", "tapadl/segformer_base_tap_adl", "fan/cascade_mask_rcnn_tiny"])
def test_the_twin_of_a_recipe_with_synchronised_statistics_trains_in_two_processes(recipe: str, tmp_path: Path) -> None:
    assert load_config(recipe).loop.sync_batchnorm
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    line = [*start, "robustvit", "train", recipe, "--twin", "--output", str(tmp_path / "run")]
    done = subprocess.run(line, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["finished"]
