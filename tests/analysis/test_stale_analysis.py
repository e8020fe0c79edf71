"""An analysis in a folder is shown, completed or refused, and never mixed with another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import robustvit as rv
from robustvit.analysis.analyze import analyze
from robustvit.analysis.options import AnalysisOptions
from robustvit.analysis.result import Analysis
from robustvit.evaluation.unfinished import FinishedRunError, ForeignFileError, UnfinishedRunError

WHAT = ["head-diversity", "bottleneck"]


@pytest.fixture(scope="module")
def networks() -> dict[str, Any]:
    return {"vit_nano": rv.create_model("vit_nano", pretrained=True)}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    for i in range(3):
        Image.new("RGB", (32, 32), (i, 80 * i, 9)).save(tmp_path / "set" / f"{i}.png")
    return tmp_path / "set"


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than a small analysis."""
    monkeypatch.setattr("robustvit.report.analysis_page.write_analysis", lambda *_: [])


def told(calls: list[str]) -> Any:
    return lambda name, *_: calls.append(name)


@pytest.mark.usefixtures("undrawn")
def test_a_finished_analysis_is_shown_again_and_not_repeated(networks: Any, pictures: Path, tmp_path: Path) -> None:
    calls: list[str] = []
    first = analyze(networks, pictures, WHAT, output=tmp_path / "out")
    again = analyze(networks, pictures, WHAT, output=tmp_path / "out", resume=True, report=told(calls))
    assert calls == []
    assert again.to_json() == json.loads(json.dumps(first.to_json()))
    for what, found in first.findings.items():
        for name, finding in found.items():
            assert finding.arrays.keys() == again.findings[what][name].arrays.keys()
            for key, array in finding.arrays.items():
                np.testing.assert_array_equal(array, again.findings[what][name].arrays[key])
    anew = analyze(networks, pictures, WHAT, output=tmp_path / "out", report=told(calls))
    assert calls != []
    assert anew.findings.keys() == first.findings.keys()


@pytest.mark.parametrize("name", ["analysis.html", "figures/head-diversity.svg", "figures"])
def test_a_missing_page_or_figure_is_drawn_again(name: str, networks: Any, pictures: Path, tmp_path: Path) -> None:
    out, calls = tmp_path / "out", list[str]()
    analyze(networks, pictures, ["head-diversity"], output=out)
    files = sorted(path.relative_to(out) for path in out.rglob("*"))
    for file in (out / name).iterdir() if (out / name).is_dir() else [out / name]:
        file.unlink()
    analyze(networks, pictures, ["head-diversity"], output=out, resume=True, report=told(calls))
    assert sorted(path.relative_to(out) for path in out.rglob("*")) == files
    assert calls == []


def test_another_analysis_is_refused_and_the_one_that_is_there_stays(networks: Any, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    analyze(networks, pictures, ["head-diversity"], output=out)
    before = {path: path.read_bytes() for path in out.rglob("*.*")}
    other = {"vit_nano": rv.create_model("vit_nano", num_classes=10)}
    with pytest.raises(FinishedRunError, match=rf"vit_nano on {pictures} \(head-diversity\).*other networks"):
        analyze(other, pictures, ["head-diversity"], output=out)
    with pytest.raises(FinishedRunError, match="other settings"):
        analyze(networks, pictures, ["head-diversity"], AnalysisOptions(seed=3), output=out, resume=True)
    (out / "arrays.npz").unlink()  # even if it is not whole
    with pytest.raises(FinishedRunError):
        analyze(other, pictures, ["head-diversity"], output=out, resume=True)
    (out / "arrays.npz").write_bytes(before[out / "arrays.npz"])
    Image.new("RGB", (32, 32)).save(pictures / "1.png")
    with pytest.raises(FinishedRunError, match="other images"):
        analyze(networks, pictures, ["head-diversity"], output=out, resume=True)
    assert {path: path.read_bytes() for path in out.rglob("*.*")} == before


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("name", "content"), [("analysis.json", b'{"created": '), ("arrays.npz", b"PK"), ("arrays.npz", None)]
)
def test_a_damaged_analysis_is_named_and_made_again(
    name: str, content: bytes | None, networks: Any, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = analyze(networks, pictures, ["bottleneck"], output=out)
    (out / name).unlink() if content is None else (out / name).write_bytes(content)
    with pytest.warns(UserWarning, match=f"{name} is not used, and made again"):
        analyze(networks, pictures, ["bottleneck"], output=out, resume=True)
    assert Analysis.load(out).to_json()["analyses"] == first.to_json()["analyses"]
    assert content is None or (out / f"{name}.damaged").read_bytes() == content


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("content", ["[]", '{"my": "numbers"}'])
def test_json_that_is_somebody_elses_is_not_replaced(content: str, networks: Any, pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "analysis.json").write_text(content)
    with pytest.raises(ForeignFileError, match=r"analysis\.json"):
        analyze(networks, pictures, ["bottleneck"], output=tmp_path, resume=True)
    assert (tmp_path / "analysis.json").read_text() == content


@pytest.mark.usefixtures("undrawn")
def test_a_network_that_computes_something_else_with_the_same_weights_is_noticed(
    networks: Any, pictures: Path, tmp_path: Path
) -> None:
    analyze(networks, pictures, ["bottleneck"], output=tmp_path / "out")
    other = rv.create_model("vit_nano", pretrained=True)
    other.blocks[0].attn.scale *= 5
    other.blocks[1].register_forward_hook(lambda module, given, result: 2 * result)
    with pytest.raises(FinishedRunError, match="other network outputs"):
        analyze({"vit_nano": other}, pictures, ["bottleneck"], output=tmp_path / "out", resume=True)


@pytest.mark.usefixtures("undrawn")
def test_findings_of_another_network_and_damaged_ones_are_made_again(networks: Any, pictures: Path, tmp_path: Path) -> None:
    out, what = tmp_path / "out", ["head-diversity", "overfocus", "bottleneck"]

    def stop(name: str, done: int, total: int) -> None:
        if name.startswith("overfocus"):
            raise KeyboardInterrupt

    other = {"vit_nano": rv.create_model("vit_nano", num_classes=10)}
    with pytest.raises(KeyboardInterrupt):
        analyze(other, pictures, what, output=out, report=stop)
    with pytest.raises(UnfinishedRunError, match="other networks"):
        analyze(networks, pictures, what, output=out, resume=True)
    (out / "unfinished" / "run.json").write_text("[]")
    (out / "unfinished" / "bottleneck-0.npz").write_bytes(b"PK\x03\x04")
    with pytest.warns(UserWarning, match="is not used") as warned:
        found = analyze(networks, pictures, what, output=out, resume=True)
    texts = " ".join(str(one.message) for one in warned)
    assert all(name in texts for name in ("run.json", "head-diversity-0.npz", "bottleneck-0.npz"))
    assert found.to_json()["analyses"] == analyze(networks, pictures, what).to_json()["analyses"]
    assert not (out / "unfinished").exists()
