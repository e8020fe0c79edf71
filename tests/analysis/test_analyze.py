"""All analyses through `analyze`: which networks allow which, what is written, and how a run goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image

import robustvit as rv
from robustvit.analysis.analyze import SHARED, analyze
from robustvit.analysis.cost import estimated_seconds
from robustvit.analysis.eigenvalues import EPSILON
from robustvit.analysis.full_augmentation import fully_augmented
from robustvit.analysis.given_images import images_at
from robustvit.analysis.options import AnalysisOptions, check_used
from robustvit.analysis.plan import make_plan
from robustvit.analysis.registry import STUDIES, study_of
from robustvit.analysis.result import Analysis
from robustvit.analysis.shared_options import Spoiling
from robustvit.analysis.spoiling import spoiled
from robustvit.analysis.subject import make_subject
from robustvit.analysis.token_labels import SURE
from robustvit.attacks import PixelNetwork
from robustvit.attacks.patches import A_TENTH
from robustvit.data.samples import ArraySamples
from robustvit.data.scenes.dataset import Hints, Scenes

QUICK = AnalysisOptions(masks=3, fit_steps=2, shown=2, batch_size=4)
FAMILIES = ("fan_vit_nano", "fan_hybrid_nano", "fan_swin_nano", "rvt_nano", "vit_nano", "deit", "swin")
EVERY = set(STUDIES)


def network(family: str) -> Any:
    torch.manual_seed(0)
    if family == "swin":
        sizes = dict(img_size=32, patch_size=4, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4))
        return rv.create_model("swin_tiny_patch4_window7_224", num_classes=10, token_head=True, **sizes)
    if family == "deit":
        sizes = dict(img_size=32, patch_size=4, embed_dim=32, depth=3, num_heads=2)
        return rv.create_model("deit_tiny_distilled_patch16_224", num_classes=10, token_head=True, **sizes)
    return rv.create_model(family, num_classes=10, token_head=True)


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    scenes = Scenes("test", 5, 48, hints=Hints(0.9, 0.9))
    for i in range(5):
        Image.fromarray(scenes.scene(i).image.permute(1, 2, 0).numpy()).save(folder / f"{i}.png")
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_every_analysis_is_possible_on_every_family(family: str) -> None:
    found = analyze({family: network(family)}, "scenes-easy:5", ["all"], QUICK, size=(32, 32))
    assert set(found.findings) == EVERY
    assert not found.left_out
    for what, by_network in found.findings.items():
        (finding,) = by_network.values()
        assert finding.definition
        missing = sum(int((~np.isfinite(array)).sum()) for array in finding.arrays.values())
        one_headed = 2 if family == "fan_swin_nano" else 0  # blocks whose only head has none to be compared with
        assert missing == (one_headed if what == "head-diversity" else 0), what
    json.dumps(found.to_json(), allow_nan=False)


def test_a_cnn_does_what_needs_no_attention_and_says_so_when_asked_for_more() -> None:
    cnn = timm.create_model("resnet10t", num_classes=10)
    cnn.pretrained_cfg["input_size"] = (3, 32, 32)
    found = analyze({"cnn": cnn}, "scenes-easy:2", ["all"], QUICK)
    assert set(found.findings) == {"occlusion", "eigenvalues", "noise-decay", "clusters", "patch-corruption", "bottleneck"}
    assert set(found.left_out) == EVERY - set(found.findings)
    with pytest.raises(ValueError, match=r"attention of cnn.*ResNet.*occlusion, eigenvalues"):
        analyze({"cnn": cnn}, "scenes-easy:4", ["attention"], QUICK)


def test_numbers_do_not_depend_on_the_batch_size_and_two_networks_share_a_run() -> None:
    models = {name: rv.create_model(name, pretrained=True) for name in ("vit_nano", "fan_vit_nano")}
    what = [name for name in STUDIES if name not in ("attention", "token-labels", "bottleneck")]
    small, large = (
        analyze(models, "scenes-easy:3", what, AnalysisOptions(masks=2, fit_steps=1, batch_size=size)).to_json()["analyses"]
        for size in (2, 3)
    )
    for name in what:
        for model in models:
            for key, value in small[name]["networks"][model].items():
                if isinstance(value, str):
                    continue
                assert value == pytest.approx(large[name]["networks"][model][key], rel=1e-3, abs=1e-4), (name, key)


def test_labels_of_tokens_do_not_depend_on_the_batch_size_though_images_are_mixed() -> None:
    models = {"vit": network("vit_nano")}
    found = [
        analyze(models, "scenes-easy:5", ["token-labels"], AnalysisOptions(batch_size=size)).findings["token-labels"]["vit"]
        for size in (2, 5)
    ]
    for name, values in found[0].arrays.items():
        np.testing.assert_allclose(values, found[1].arrays[name], atol=1e-5)


def test_attention_of_the_trained_network_changes_more_under_more_noise() -> None:
    models = {"vit_nano": rv.create_model("vit_nano", pretrained=True)}
    found = [
        analyze(models, "scenes-easy:8", ["stability"], AnalysisOptions(severity=severity)).findings["stability"]["vit_nano"]
        for severity in (1, 5)
    ]
    assert found[0].numbers["mean"] > found[1].numbers["mean"]
    assert found[0].numbers["worst_5_percent"] <= found[0].numbers["mean"] < 1


def test_images_without_labels_are_judged_by_the_answers_to_the_clean_ones(loose: Path) -> None:
    models = {"vit_nano": rv.create_model("vit_nano", pretrained=True)}
    found = analyze(models, loose, ["occlusion"], AnalysisOptions(masks=2, rho=0.0))
    assert found.networks["vit_nano"]["truth"] == "the network's own answers to the clean images"
    assert found.findings["occlusion"]["vit_nano"].numbers["mean_accuracy"] == 1.0  # nothing is covered
    assert found.about["pictures"]["count"] == 5
    one = analyze(models, loose / "3.png", ["attention", "clusters"], QUICK)
    assert one.findings["attention"]["vit_nano"].numbers["picture"] == "3.png"
    labelled = analyze(models, "scenes-easy:4", ["occlusion"], AnalysisOptions(masks=1))
    assert labelled.networks["vit_nano"]["truth"] == "labels of the images"


def test_a_image_that_cannot_be_read_is_named_and_the_others_are_used(loose: Path) -> None:
    (loose / "2.png").write_bytes(b"no image")
    models = {"vit_nano": rv.create_model("vit_nano", pretrained=True)}
    found = analyze(models, loose, ["stability"], QUICK)
    assert list(found.networks["vit_nano"]["skipped"]) == ["2.png"]
    assert found.findings["stability"]["vit_nano"].numbers["pictures"] == 4
    for file in loose.iterdir():
        file.write_bytes(b"")
    with pytest.raises(ValueError, match="only 0 "):
        analyze(models, loose, ["clusters"], QUICK)


def test_the_images_of_class_folders_are_mixed_and_those_of_a_folder_keep_their_order(tmp_path: Path) -> None:
    for label in "abc":
        (tmp_path / "set" / label).mkdir(parents=True)
        for i in range(4):
            Image.new("RGB", (8, 8), (20 * i, 9, 9)).save(tmp_path / "set" / label / f"{label}{i}.png")
    mixed = [picture.id for picture in images_at(tmp_path / "set", (32, 32), limit=6)]
    assert len({Path(name).parent.name for name in mixed}) == 3
    assert mixed == [picture.id for picture in images_at(tmp_path / "set", (32, 32), limit=6)]
    assert mixed != [picture.id for picture in images_at(tmp_path / "set", (32, 32), limit=6, seed=1)]
    plain = [picture.id for picture in images_at(tmp_path / "set" / "a", (32, 32))]
    assert plain == ["a0.png", "a1.png", "a2.png", "a3.png"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (dict(corruption="rain"), "'rain'"),
        (dict(corruption="gausian_noise"), "gausian_noise.*gaussian_noise"),
        (dict(severity=6), "severity=6.*1 to 5"),
        (dict(layers=(99,)), r"layers=\[99\]"),
        (dict(picture=9), "picture=9.* 3 "),
        (dict(clusters=65), "clusters=65.*2 to 16"),
        (dict(query=(0.5, 1.5)), r"query=\(0.5, 1.5\)"),
        (dict(masks=0), "masks=0.* 1"),
        (dict(fit_steps=0), "fit_steps=0.* 1"),
        (dict(fit_steps=9, corruption_model="runs/afat"), "fit_steps.*corruption_model"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        analyze({"vit": network("vit_nano")}, "scenes-easy:3", ["attention", "clusters"], AnalysisOptions(**options))


def test_the_options_have_the_defaults_of_the_functions() -> None:
    options = AnalysisOptions()
    assert (options.epsilon, options.sure, options.rho) == (EPSILON, SURE, A_TENTH.rho)


def test_unknown_analyses_and_missing_networks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'stabilty'.*stability"):
        analyze({"vit": network("vit_nano")}, "scenes-easy:3", ["stabilty"])
    with pytest.raises(ValueError, match="fan_vit_nano"):
        analyze({}, "scenes-easy:3")
    with pytest.raises(ValueError, match="limit=0"):
        analyze({"vit": network("vit_nano")}, "scenes-easy:3", limit=0)


def test_settings_that_cannot_work_leave_nothing_in_the_way(tmp_path: Path) -> None:
    model, out = {"vit": network("vit_nano")}, tmp_path / "out"
    for options in (dict(layers=(99,)), dict(picture=9), dict(corruption_model=str(tmp_path / "nowhere"))):
        with pytest.raises((ValueError, OSError)):
            analyze(model, "scenes-easy:3", ["all"], AnalysisOptions(**options), output=out)
        assert not out.exists()
    analyze(model, "scenes-easy:3", ["head-diversity"], output=out)
    assert (out / "analysis.json").exists()


def test_all_does_not_hide_that_no_image_could_be_read(loose: Path, tmp_path: Path) -> None:
    for file in loose.iterdir():
        file.write_bytes(b"")
    with pytest.raises(ValueError, match="only 0 "):
        analyze({"vit": network("vit_nano")}, loose, ["all"], output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_network_whose_answers_are_not_finite_is_refused() -> None:
    model = network("vit_nano")
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"vit.* 0 .*NaN"):
        analyze({"vit": model}, "scenes-easy:3", ["occlusion"], QUICK)


def test_a_label_that_the_network_has_no_output_for_is_named() -> None:
    pictures = ArraySamples(np.zeros((3, 32, 32, 3), np.uint8), [1, 12, 3], "odd")
    with pytest.raises(ValueError, match=r" 1 of odd .*12.*vit.*0 to 9"):
        analyze({"vit": network("vit_nano")}, pictures, ["occlusion"], QUICK)


def test_what_could_not_be_read_is_known_after_a_resumed_run(loose: Path, tmp_path: Path) -> None:
    (loose / "2.png").write_bytes(b"no image")
    models, out = {"vit_nano": rv.create_model("vit_nano", pretrained=True)}, tmp_path / "out"

    def stop(name: str, done: int, total: int) -> None:
        if name.startswith("overfocus"):
            raise KeyboardInterrupt

    what = ["stability", "overfocus"]
    with pytest.raises(KeyboardInterrupt):
        analyze(models, loose, what, QUICK, output=out, report=stop)
    found = analyze(models, loose, what, QUICK, output=out, resume=True)
    assert list(found.networks["vit_nano"]["skipped"]) == ["2.png"]
    (loose / "9.png").write_bytes((loose / "1.png").read_bytes())
    (loose / "1.png").unlink()
    with pytest.raises(KeyboardInterrupt):
        analyze(models, loose, what, QUICK, output=tmp_path / "other", report=stop)
    (loose / "9.png").rename(loose / "8.png")  # as many images, but others
    with pytest.raises(ValueError, match="other images"):
        analyze(models, loose, what, QUICK, output=tmp_path / "other", resume=True)


def test_networks_in_half_precision_are_analysed() -> None:
    model = rv.create_model("vit_nano", num_classes=10, token_head=True).bfloat16()
    found = analyze({"vit": model}, "scenes-easy:3", ["all"], QUICK)
    assert set(found.findings) == EVERY


def test_as_many_images_are_shown_as_asked_for_whatever_the_batch_size() -> None:
    models = {"vit_nano": rv.create_model("vit_nano", num_classes=10, token_head=True)}
    options = AnalysisOptions(shown=3, batch_size=2, fit_steps=1)
    found = analyze(models, "scenes-easy:5", ["patch-corruption", "token-labels"], options).findings
    assert len(found["patch-corruption"]["vit_nano"].arrays["chosen"]) == 3
    assert len(found["token-labels"]["vit_nano"].arrays["levels"]) == 3


def test_a_image_with_all_augmentations_depends_on_its_id_and_has_noise_and_another_image_in_it() -> None:
    model = PixelNetwork(network("vit_nano"))
    pixels = torch.stack([torch.full((3, 32, 32), value, dtype=torch.uint8) for value in (40, 200)])
    first = fully_augmented(model, pixels, ["a", "b"])
    torch.testing.assert_close(first, fully_augmented(model, pixels, ["a", "b"]))
    assert not torch.equal(first, fully_augmented(model, pixels, ["a", "c"]))
    assert first.min() >= 0
    assert first.max() <= 1
    assert len(first[0].unique()) > 20  # erased with noise
    three = fully_augmented(model, torch.cat([pixels, pixels[:1]]), ["a", "b", "c"])
    for i, name in enumerate("abc"):  # alone, an image has the same colours and the same noise, but no partner
        alone = fully_augmented(model, pixels[i % 2 : i % 2 + 1], [name])
        assert 0.02 < (alone[0] != three[i]).any(0).float().mean() < 1


def test_the_only_image_has_no_partner_for_cutmix_and_the_result_says_so() -> None:
    for count, is_alone in ((1, True), (2, False)):
        found = analyze({"vit": network("vit_nano")}, f"scenes-easy:{count}", ["token-labels"], QUICK)
        assert found.findings["token-labels"]["vit"].numbers["without_cutmix"] is is_alone


def test_an_interrupted_run_goes_on_and_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"vit_nano": rv.create_model("vit_nano", pretrained=True)}
    what = ["head-diversity", "noise-decay"]
    whole = analyze(models, "scenes-easy:4", what, QUICK).to_json()["analyses"]
    calls = []

    def stop(name: str, done: int, total: int) -> None:
        calls.append(name)
        if name.startswith("noise-decay"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        analyze(models, "scenes-easy:4", what, QUICK, output=tmp_path / "out", report=stop)
    assert not (tmp_path / "out" / "analysis.json").exists()
    with pytest.raises(ValueError, match="unfinished run"):
        analyze(models, "scenes-easy:4", what, QUICK, output=tmp_path / "out")
    calls.clear()
    again = analyze(
        models, "scenes-easy:4", what, QUICK, output=tmp_path / "out", resume=True, report=lambda name, *_: calls.append(name)
    )
    assert {name.partition(":")[0] for name in calls} == {"noise-decay"}
    assert again.to_json()["analyses"] == whole
    stored = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert stored["analyses"] == whole
    assert not (tmp_path / "out" / "unfinished").exists()


def test_a_batch_that_does_not_fit_memory_is_told_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network("vit_nano")

    forward, most = model.forward, 1

    def full(x: torch.Tensor) -> torch.Tensor:
        if len(x) > most:
            raise torch.OutOfMemoryError("tried to allocate 9 TiB")
        return forward(x)

    monkeypatch.setattr(model, "forward", full)
    with pytest.raises(RuntimeError, match=r"4 .*32x32.*--batch-size"):
        analyze({"vit": model}, "scenes-easy:4", ["stability"], QUICK)
    most = 0
    with pytest.raises(RuntimeError, match=r"1 .*32x32.*--img-size"):
        analyze({"vit": model}, "scenes-easy:4", ["stability"], QUICK)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("xcit_nano_12_p16_224", "XCA.* 4 tokens"),
        ("pvt_v2_b0", " 64 tokens"),
    ],
)
def test_attention_over_channels_or_to_fewer_tokens_is_not_taken_for_attention_among_tokens(name: str, told: str) -> None:
    model = {"odd": timm.create_model(name, num_classes=10)}
    with pytest.raises(ValueError, match=rf"{told}.*eigenvalues"):
        analyze(model, "scenes-easy:1", ["stability"], QUICK, size=(32, 32))
    found = analyze(model, "scenes-easy:1", ["all"], replace(QUICK, masks=1), size=(32, 32))
    assert {"attention", "stability", "head-diversity", "overfocus"} <= set(found.left_out)
    assert "eigenvalues" in found.findings


def test_a_network_whose_patches_are_not_known_stands_beside_one_whose_are() -> None:
    models = {"odd": timm.create_model("xcit_nano_12_p16_224", num_classes=10), "vit": network("vit_nano")}
    found = analyze(models, "scenes-easy:1", ["all"], replace(QUICK, masks=1), size=(32, 32))
    assert "odd" in found.left_out["occlusion"]
    assert [found.networks[name]["patch_side"] for name in models] == [None, 4]


def test_options_that_concern_no_chosen_analysis_are_named() -> None:
    refused: list[tuple[dict[str, Any], list[str], str]] = [
        (dict(masks=7), ["stability", "overfocus"], "--masks.*occlusion.*stability, overfocus"),
        (dict(corruption="patches", severity=5), ["stability"], "--severity.*--corruption patches"),
        (dict(rho=0.3), ["stability"], "--rho.*--corruption patches.*occlusion, patch-corruption"),
        (dict(noise="input", sigma=2.0), ["all"], "--sigma.*--noise input"),
    ]
    for options, what, told in refused:
        with pytest.raises(ValueError, match=told):
            check_used(AnalysisOptions(**options), what)
    check_used(AnalysisOptions(rho=0.3), ["stability", "occlusion"])
    check_used(AnalysisOptions(corruption="patches", rho=0.3), ["stability"])
    check_used(AnalysisOptions(masks=7, sigma=2.0, batch_size=4, seed=3), ["all"])


def test_a_narrow_image_counts_as_smaller_than_the_input(tmp_path: Path) -> None:
    for name, size in (("narrow", (8, 200)), ("small", (6, 6)), ("large", (40, 64))):
        Image.new("RGB", size).save(tmp_path / f"{name}.png")
    assert analyze({"vit": network("vit_nano")}, tmp_path, ["stability"], QUICK).networks["vit"]["enlarged"] == 2


def test_occlusion_and_corruption_by_patches_cover_patches_of_the_tokens_size() -> None:
    model = rv.create_model("vit_tiny_patch16_224", img_size=64, num_classes=10, depth=1)
    options = replace(QUICK, corruption="patches")
    how: dict[str, Any] = dict(size=(64, 64))
    found = analyze({"vit": model}, "scenes-easy:2", ["stability", "occlusion"], options, **how)
    assert found.networks["vit"]["patch_side"] == 16
    subject = make_subject("vit", model, "scenes-easy:2", options, **how)
    batch = subject.only(0)
    changed = (
        (spoiled(subject, batch, Spoiling(corruption="patches")) != batch.pixels)
        .any(1)[0]
        .view(4, 16, 4, 16)
        .float()
        .mean((1, 3))
    )
    assert sorted(changed.flatten().round().tolist())[-3:] == [0, 1, 1]  # floor(0.1 * 15) + 1 of 16 patches
    assert analyze({"vit": model}, "scenes-easy:1", ["stability"], QUICK, **how).networks["vit"]["patch_side"] is None


def test_a_bottleneck_needs_no_network_and_ends_where_it_stays() -> None:
    finding = analyze({"vit": network("vit_nano")}, "scenes-easy:1", ["bottleneck"]).findings["bottleneck"][SHARED]
    assert finding.numbers["last_move"] < 0.05
    assert finding.arrays["centres"].shape == (finding.numbers["steps"] + 1, 4, 2)


def test_large_images_are_shown_as_maps_of_bounded_size() -> None:
    model = rv.create_model("vit_tiny_patch16_224", img_size=448, num_classes=10, depth=1)  # 784 tokens
    found = analyze({"vit": model}, "scenes-easy:1", ["attention"], AnalysisOptions(layers=(-1,)), size=(448, 448))
    arrays = found.findings["attention"]["vit"].arrays
    assert arrays["clean/layer 0"].shape == (196, 196)  # squares of 4 x 4 entries
    assert arrays["clean/query 0"].shape == (28, 28)
    assert arrays["clean/query 0"].sum() == pytest.approx(1, abs=0.05)


def known_from(first: int, count: int, networks: dict[str, Any]) -> tuple[ArraySamples, list[str]]:
    """Images of which the networks know none before `first`, with the ids of those that all of them know."""
    images, _ = Scenes("test", count, 32, hints=Hints(0.9, 0.9)).tensors()
    with torch.no_grad():
        answers = torch.stack([PixelNetwork(one.eval())(images.float() / 255).argmax(1) for one in networks.values()])
    labels = answers[0].clone()
    labels[:first] = (labels[:first] + 1) % 10  # which the first network does not answer
    known = (answers == labels).all(0)
    pictures = ArraySamples(images.permute(0, 2, 3, 1).numpy(), labels.numpy(), "scenes")
    return pictures, [str(i) for i in known.nonzero()[:, 0].tolist()]


def test_figures_show_images_that_all_networks_know() -> None:
    networks = {name: rv.create_model(name, pretrained=True) for name in ("vit_nano", "vit_pico")}
    pictures, known = known_from(3, 12, networks)
    assert known[0] >= "3"
    found = analyze(networks, pictures, ["attention", "clusters"], AnalysisOptions(shown=2, layers=(0,)))
    assert found.about["pictures"]["figures"] == "Figures show images that all networks answer rightly."
    for name in networks:
        assert found.findings["attention"][name].numbers["picture"] == known[0]
        for place in range(2):
            shown = found.findings["clusters"][name].arrays[f"{place}/clean/picture"]
            assert (shown == pictures.images[int(known[place])]).all()
    second = analyze(networks, pictures, ["attention"], AnalysisOptions(picture=1))
    assert second.findings["attention"]["vit_nano"].numbers["picture"] == "1"  # as given, known or not


def test_numbers_do_not_depend_on_which_images_figures_show(monkeypatch: pytest.MonkeyPatch) -> None:
    networks = {"vit": network("vit_nano")}
    pictures, known = known_from(17, 20, networks)  # the numbers of token labels are of the first 16
    what, options = ["clusters", "token-labels", "patch-corruption"], replace(QUICK, layers=(0,), fit_steps=1)
    found = analyze(networks, pictures, what, options)
    monkeypatch.setattr("robustvit.analysis.plan.show_known", lambda *_: "")
    first_ones = analyze(networks, pictures, what, options)
    for name in what:
        assert found.findings[name]["vit"].numbers == first_ones.findings[name]["vit"].numbers
    for name in what[1:]:
        for one, ids in ((found, known), (first_ones, ["0", "1"])):
            shown = one.findings[name]["vit"].arrays["pictures"]
            assert (shown == pictures.images[[int(i) for i in ids[:2]]]).all()
    patches = found.findings["patch-corruption"]["vit"]
    assert patches.arrays["shown"].tolist() == [int(i) for i in known[:2]]
    (plate,) = study_of("patch-corruption").plates({"vit": patches}, study_of("patch-corruption").own_options({}))
    titles = [axis.get_title().replace("\n", " ") for axis in plate.figure.axes[:2]]
    assert titles == [f"confidence {patches.arrays['clean'][int(i)]:.0%}" for i in known[:2]]
    np.testing.assert_array_equal(*(one.findings["token-labels"]["vit"].arrays["confidences"] for one in (found, first_ones)))


def test_it_is_said_why_figures_show_what_the_network_does_not_know(tmp_path: Path) -> None:
    blind = {"blind": rv.create_model("vit_pico", num_classes=10)}
    few = analyze(blind, "scenes-easy:3", ["attention"], AnalysisOptions(shown=4))
    assert "of 3 images" in few.about["pictures"]["figures"].lower()
    Image.new("RGB", (32, 32), "red").save(tmp_path / "a.png")
    unlabelled = analyze(blind, tmp_path, ["attention"])
    assert "no labels" in unlabelled.about["pictures"]["figures"]
    assert analyze(blind, "scenes-easy:2", ["head-diversity"]).about["pictures"]["figures"] == ""


def test_costs_are_told_from_a_trial_before_the_work_starts() -> None:
    told: list[dict[str, float]] = []
    network = {"net": rv.create_model("vit_pico", pretrained=True)}
    seen: list[str] = []
    options = AnalysisOptions(masks=5)
    analyze(
        network,
        "scenes-easy:4",
        ["occlusion", "head-diversity", "bottleneck"],
        options,
        estimated=lambda seconds: told.append(dict(seconds)) if not seen else None,
        report=lambda what, done, total: seen.append(what),
    )
    assert [set(one) for one in told] == [{"occlusion", "head-diversity"}]
    expected = {"occlusion": 4 * 6, "stability": 8, "patch-corruption": 3 * 4 + 3 * 16 * 10}
    values = vars(AnalysisOptions(masks=5, fit_steps=10))
    for name, passes in expected.items():
        study = study_of(name)
        assert study.passes(4, study.own_options(values)) == passes


def test_the_estimate_is_the_line_through_two_trials() -> None:
    """A clock that counts images: a pass takes one second, and every run one more."""
    network = rv.create_model("vit_pico", pretrained=True)
    options = AnalysisOptions(masks=7)
    plan = make_plan({"net": make_subject("net", network, "scenes-easy:10", options)}, ["occlusion"], options)
    now = iter([0.0, 1 + 1 * 2, 10.0, 10 + 1 + 3 * 4])  # (1 image, 1 mask), (3 images, 3 masks)
    found = estimated_seconds(plan, clock=lambda: next(now))
    assert found == {"occlusion": pytest.approx(1 + 10 * 8)}


def test_studies_in_half_precision_say_how_far_their_numbers_differ(tmp_path: Path) -> None:
    network = rv.create_model("fan_vit_nano", pretrained=True).eval()
    how: dict[str, Any] = dict(what=["stability", "eigenvalues"], output=tmp_path)
    analysis = analyze({"fan": network}, "scenes-easy:8", options=AnalysisOptions(precision="bf16"), **how)
    changes = analysis.findings["stability"]["fan"].half_precision
    assert 0 < max(changes.values()) < 0.05
    assert analysis.about["options"]["precision"] == "bf16"
    assert Analysis.load(tmp_path).findings["stability"]["fan"].half_precision == changes
    assert not analyze({"fan": network}, "scenes-easy:8", ["stability"]).findings["stability"]["fan"].half_precision
