"""Validation is an evaluation of the clean images, and decodes them once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from image_folders import fill, spoil
from refusals import refused

import robustvit as rv
from robustvit.data.layouts import open_samples
from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol, protocol_of
from robustvit.tasks.classification import Classification
from robustvit.training.distributed import Workers
from robustvit.training.validation import Validation


@pytest.fixture(scope="module")
def network() -> Any:
    return rv.create_model("vit_pico", num_classes=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill(tmp_path / "val", size=(48, 48))


def validation(network: Any, folder: Path, workers: Workers | None = None) -> Validation:
    about = (open_samples(folder), protocol_of("model", network), Normalisation.of(network))
    return Validation(Classification().bind_in_order(2), *about, batch_size=6, workers=workers or Workers())


def test_its_score_is_that_of_an_evaluation(network: Any, folder: Path) -> None:
    measured = rv.evaluate(network, folder, "clean", batch_size=6).models[0]
    network.train()
    assert validation(network, folder).score(network) == measured.summary["clean_accuracy"].value
    assert all(module.training for module in network.modules())


def test_images_are_decoded_once_and_those_unreadable_named(
    network: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = spoil(folder)
    validated = validation(network, folder)
    score = validated.score(network)
    monkeypatch.delattr(Protocol, "apply")
    assert validated.score(network) == score
    assert {name for name, _ in validated.unreadable} == wrong.keys()


def test_images_that_take_too_much_memory_are_not_kept(network: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustvit.training.validation.CACHE_BYTES", 1000)
    validated = validation(network, folder)
    assert validated.score(network) == validated.score(network)
    assert validated.kept is None


def test_a_set_without_readable_images_is_refused(network: Any, folder: Path) -> None:
    for file in folder.glob("*/*.png"):
        file.write_text("this is no image")
    with refused(ValueError, folder):
        validation(network, folder).score(network)


@dataclass(frozen=True)
class Second(Workers):
    """The second of two processes; `first` is what the first one gives."""

    rank: int = 1
    world: int = 2
    first: Any = None

    def gather(self, value: Any) -> list[Any]:
        return [self.first, value]


def test_stopped_in_one_process_it_ends_without_a_score_in_all(network: Any, folder: Path) -> None:
    asked = iter([False, False, True])
    assert validation(network, folder).score(network, lambda: next(asked)) is None
    assert validation(network, folder, Second()).score(network) is None
    assert validation(network, folder, Second(first={})).score(network) is not None


def test_every_process_of_a_sharded_network_takes_part_as_often_and_to_the_end(network: Any, folder: Path) -> None:
    calls = []
    with network.register_forward_hook(lambda *about: calls.append(1)):
        workers = Second(parallel="fsdp", first={})
        assert validation(network, folder, workers).score(network, lambda: True) is not None
    assert len(calls) == 2  # 16 samples are 3 batches, of which it has one
