"""Plug-ins: the package that docs/extending.md shows is installed, and used through the public interface."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torchvision.transforms.functional import to_pil_image

import robustvit as rv
from robustvit.analysis.options import options_class
from robustvit.attacks import build_attack
from robustvit.cli.attack_flags import build_attacks, flags_class
from robustvit.corruptions.registry import CORRUPTIONS
from robustvit.data.scenes import Scenes
from robustvit.evaluation.suites.registry import SUITES
from robustvit.methods.registry import METHODS
from robustvit.runtime.plugins import Registry, installed

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
ON_SCENES = ["data.train=scenes:8", "data.val=", "loop.batch_size=8", "schedule.epochs=1", "loop.device=cpu"]
SMALL = ["model.name=vit_nano", "model.options={embed_dim: 32, depth: 2, num_heads: 2}"]


def install(folder: Path, package: str, groups: dict[str, dict[str, str]]) -> None:
    """Leaves what pip leaves of a package, but for its modules."""
    metadata = folder / f"{package}-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    lines = [line for group, names in groups.items() for line in (f"[{group}]", *(f"{n} = {v}" for n, v in names.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    installed.cache_clear()
    yield folder
    installed.cache_clear()


@pytest.fixture
def documented(site: Path) -> None:
    """The package of the page."""
    blocks = re.findall(r"^```python\n# (my_package/\w+\.py)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (site / "my_package").mkdir()
    for place, source in blocks:
        (site / place).write_text(source)
    toml = re.search(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert toml
    install(site, "my-package", tomllib.loads(toml[1])["project"]["entry-points"])


@pytest.mark.usefixtures("documented")
def test_a_corruption_of_a_plug_in_is_applied_and_measured() -> None:
    images = torch.full((2, 3, 32, 32), 40, dtype=torch.uint8)
    spoiled = rv.corrupt(images, "haze", 3, seed=1)
    assert (spoiled > images).all()
    assert torch.equal(rv.corrupt(images[1:], "haze", 3, seed=1, sample_ids=[1]), spoiled[1:])
    results = rv.evaluate(rv.create_model("vit_nano"), "scenes-easy:4", ["clean", "haze"], severity=(1, 5), examples=0)
    assert {(cell.condition, cell.severity) for cell in results.models[0].cells} >= {("haze", 1), ("haze", 5)}


@pytest.mark.usefixtures("documented")
def test_published_sets_do_not_grow_with_plug_ins() -> None:
    assert [len(rv.corruption_names(group)) for group in ("common15", "extra4", "all19", "weather")] == [15, 4, 19, 4]
    assert rv.corruption_names("all") == (*rv.corruption_names("all19"), "haze")
    assert len(CORRUPTIONS) == 20


@pytest.mark.usefixtures("documented")
def test_suites_of_a_plug_in_are_measured_and_their_numbers_shown(tmp_path: Path) -> None:
    for folder in ("val", "sketches"):
        for i, name in enumerate(Scenes.classes):
            (tmp_path / "set" / folder / name).mkdir(parents=True)
            image, _ = Scenes("test", 10)[i]
            to_pil_image(image).save(tmp_path / "set" / folder / name / "a.png")
    network = rv.create_model("vit_nano", pretrained=True)
    chosen = ["driving", "sketches"]
    results = rv.evaluate(network, tmp_path / "set", chosen, severity=3, output=tmp_path / "out", examples=0)
    model = results.models[0]
    assert {cell.condition for cell in model.cells if cell.suite == "driving"} == set(SUITES["driving"].corruptions)  # type: ignore[attr-defined]
    assert model.summary["sketches_accuracy"].value == model.summary["clean_accuracy"].value
    assert "Accuracy on sketches" in (tmp_path / "out" / "report.html").read_text()
    with pytest.raises(ValueError, match=r"sketched.*sketches"):
        rv.evaluate(network, tmp_path / "set", "sketched")


@pytest.mark.usefixtures("documented", "undrawn")
def test_a_method_of_a_plug_in_trains(tmp_path: Path) -> None:
    config = rv.load_config(None, [*ON_SCENES, *SMALL, "methods.entropy.weight=0.5"])
    rv.train(config, tmp_path / "run")
    assert '"entropy"' in (tmp_path / "run" / "metrics.jsonl").read_text()


@pytest.mark.usefixtures("documented")
def test_an_attack_of_a_plug_in_is_measured_and_shown(tmp_path: Path) -> None:
    attack = build_attack("stripes", {"width": 2})
    assert attack.describe() == {"width": 2, "strength": 8 / 255}
    results = rv.evaluate(rv.create_model("vit_nano"), "scenes-easy:4", "clean", attacks=[attack], examples=1)
    assert "stripes_accuracy" in results.models[0].summary
    results.save(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "Accuracy under stripes" in page
    assert "8/255" in page


@pytest.mark.usefixtures("documented")
def test_the_options_of_a_plug_in_are_flags() -> None:
    flags = flags_class(["data"])(strength="16/255")
    assert build_attacks(["stripes"], flags)[0].describe() == {"width": 4, "strength": 16 / 255}
    with pytest.raises(ValueError, match="--strength belongs to stripes"):
        build_attacks(["fgsm"], flags)
    with pytest.raises(ValueError, match="stripes has an option --width"):
        flags_class(["width"])


@pytest.mark.usefixtures("documented")
def test_a_study_of_a_plug_in_is_made_with_its_options_and_drawn(tmp_path: Path) -> None:
    networks = {name: rv.create_model(name, num_classes=10) for name in ("vit_nano", "fan_vit_nano")}
    options = options_class()(norm_order=1.0)  # type: ignore[call-arg]
    found = rv.analyze(networks, "scenes-easy:2", ["token-norms"], options, output=tmp_path)
    assert len(found.findings["token-norms"]["vit_nano"].numbers["norm"]) == 6
    assert "How large tokens are" in (tmp_path / "analysis.html").read_text()
    assert (tmp_path / "figures" / "token-norms.svg").exists()


def test_a_name_that_the_package_has_is_refused_with_both_owners(site: Path) -> None:
    install(site, "rival", {"robustvit.methods": {"adl": "rival:Adl"}})
    with pytest.raises(ValueError, match=r"rival:Adl of rival.*robustvit\.methods\.adl:AdlConfig"):
        list(METHODS)


def test_a_name_that_two_plug_ins_give_is_refused_with_both(site: Path) -> None:
    for package in ("first", "second"):
        install(site, package, {"robustvit.corruptions": {"rain": f"{package}:RAIN"}})
    with pytest.raises(ValueError, match=r"'rain'.*first:RAIN of first.*second:RAIN of second"):
        installed("robustvit.corruptions")


def test_a_plug_in_is_imported_when_it_is_asked_for_and_named_when_that_fails(site: Path) -> None:
    install(site, "broken", {"robustvit.corruptions": {"rain": "no_such_module:RAIN", "hail": "hail:HAIL"}})
    (site / "hail.py").write_text("from types import SimpleNamespace\nHAIL = SimpleNamespace(name='sleet')")
    assert "rain" in CORRUPTIONS
    with pytest.raises(ValueError, match="no_such_module:RAIN of broken"):
        CORRUPTIONS["rain"]
    with pytest.raises(ValueError, match=r"'hail'.*'sleet'"):
        CORRUPTIONS["hail"]


def test_own_objects_are_imported_when_they_are_asked_for() -> None:
    registry: Registry[object] = Registry(
        "robustvit.nothing", {"wrong": "no_such_module:X", "five": 5, "path": "pathlib:Path"}
    )
    assert list(registry) == ["wrong", "five", "path"]
    assert (registry["five"], registry["path"], registry.get("other")) == (5, Path, None)
