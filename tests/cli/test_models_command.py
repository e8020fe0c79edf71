"""`robustvit models`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from robustvit.cli import main
from robustvit.cli.models import matching_networks
from robustvit.models.published import PUBLISHED
from robustvit.models.registry import list_models

DOCS = Path(__file__).parents[2] / "docs"


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["models", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_every_network_with_exact_counts(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in listed(capsys)}
    dense = {"fan_hybrid_nano/segformer": ["scenes"], "fan_hybrid_base/segformer": ["", "tapadl_cityscapes"]}
    assert sorted(rows) == sorted([*list_models(), "vit_nano", "vit_pico", *dense])
    for name, (shipped, *published) in dense.items():
        assert [rows[name]["shipped"], *(w["tag"] for w in rows[name]["weights"])] == [shipped, *published]
    assert rows["fan_vit_tiny"]["parameters"] == 7_319_920
    assert rows["fan_hybrid_base"]["parameters"] == 50_475_048
    assert rows["fan_swin_tiny"]["parameters"] == 29_538_940
    assert rows["rvt_tiny_plus"]["parameters"] == 10_951_336
    assert rows["fan_hybrid_base"]["reductions"] == [4, 8, 16, 32]
    assert rows["rvt_nano"]["input_size"] == [3, 32, 32]
    assert sum(len(row["weights"]) for row in rows.values()) == len(PUBLISHED)
    documented = re.findall(r"^\| `(\w+)` \|.* ([\d,]+) \|$", (DOCS / "networks.md").read_text(), re.MULTILINE)
    assert {name: int(count.replace(",", "")) for name, count in documented} == {
        name: row["parameters"] for name, row in rows.items() if name not in dense
    }


def test_table_shows_names_counts_and_browser_marks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "rvt_tiny*"]) == 0
    shown = capsys.readouterr().out
    assert "rvt_tiny_plus" in shown
    assert "10,951,336" in shown
    assert "rspc_in1k, rvt_in1k*" in shown
    assert "2 networks" in shown


def test_networks_are_ordered_by_family_then_size(capsys: pytest.CaptureFixture[str]) -> None:
    names = [row["name"] for row in listed(capsys, "*nano*")]
    classifiers = ["fan_vit_nano", "fan_hybrid_nano", "fan_swin_nano", "rvt_nano", "vit_nano"]
    assert names == [*classifiers, "fan_hybrid_nano/segformer"]


def test_a_slash_asks_for_dense_networks(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "*nano/segformer")
    assert [row["name"] for row in rows] == [f"{name}/segformer" for name in list_models("*nano")]
    assert [row["reductions"] for row in rows if row["name"] == "fan_hybrid_nano/segformer"] == [[4, 8, 16, 16]]
    (published,) = listed(capsys, "tap_fan_base_16_p4_hybrid/segformer", "--pretrained")
    assert published["weights"][0]["reported"] == {"cityscapes": 82.9, "cityscapes_c": 69.7, "acdc": 63.6}


def test_weights_give_address_scores_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "fan_hybrid_tiny", "--weights"]) == 0
    shown = capsys.readouterr().out
    chosen = [w for w in PUBLISHED if w.architecture == "fan_hybrid_tiny"]
    assert {w.url is None for w in chosen} == {True, False}
    for w in chosen:
        assert f"fan_hybrid_tiny.{w.tag}" in shown
        assert (w.url or w.how_to_get()) in shown
    assert "imagenet_c_fan17 57.4" in shown


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("fan_vit_nano", ["fan_vit_nano"]),
        ("swin_nano", ["fan_swin_nano"]),
        ("fan_*_nano", ["fan_hybrid_nano", "fan_swin_nano", "fan_vit_nano"]),
        ("fan_tiny_12_p16_224", ["fan_vit_tiny"]),
        ("tap_rvt_base_plus", ["rvt_base_plus"]),
        ("fan_hybrid_base.tapadl_in1k", ["fan_hybrid_base"]),
    ],
)
def test_pattern_is_a_name_a_part_a_shell_pattern_or_a_published_name(pattern: str, names: list[str]) -> None:
    assert sorted(matching_networks(pattern)) == names


def test_pretrained_leaves_only_networks_with_weights() -> None:
    names = matching_networks("fan_vit*", pretrained=True)
    assert names == ["fan_vit_nano", "fan_vit_tiny", "fan_vit_small", "fan_vit_base"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fan_vot_tiny"], "did you mean fan_vit_tiny"),
        (["rvt_nano", "--pretrained"], "no published weights of rvt_nano"),
    ],
)
def test_nothing_to_list_is_an_error(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert told in shown.err


def test_weights_of_the_package_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert matching_networks("*nano", pretrained=True) == ["fan_vit_nano", "vit_nano"]
    assert main(["models", "vit_nano"]) == 0
    assert "scenes (in the package)" in capsys.readouterr().out
    assert main(["models", "fan_vit_nano", "--weights"]) == 0
    assert "fan_vit_nano.scenes" in capsys.readouterr().out


def test_cost_shows_shape_and_flops_beside_what_papers_print(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["models", "rvt_tiny*", "--cost"]) == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if "rvt_tiny_plus" in line)
    for text in ("10 2", "192 384", "6 12", "10,951,336", "1.284 G", "10.9 M, 1.3 G (AFAT, Table 2)"):
        assert text in row
    assert main(["models", "rvt_tiny", "--cost", "--weights"]) == 2
    assert "give one of them" in capsys.readouterr().err


def test_json_has_shapes_and_with_cost_the_flops_of_classifiers(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in listed(capsys, "*hybrid_nano*", "--cost")}
    assert rows["fan_hybrid_nano"]["shapes"] == [{"blocks": 3, "width": 96, "heads": 4}]
    assert 2_000_000 < rows["fan_hybrid_nano"]["flops"] < 4_000_000
    assert rows["fan_hybrid_nano/segformer"]["flops"] is None  # of images of any size
    (plain,) = [row for row in listed(capsys, "fan_vit_tiny") if row["name"] == "fan_vit_tiny"]
    assert plain["flops"] is None
    assert plain["printed"] == [
        {"network": "fan_vit_tiny", "parameters": 7.3, "flops": 1.4, "source": "FAN, Table 1", "options": {}}
    ]
