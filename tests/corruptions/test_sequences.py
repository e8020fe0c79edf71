from __future__ import annotations

import golden
import pytest
import torch
from PIL import Image
from refusals import refused
from torch import Tensor

from robustvit.corruptions.sequences import SEQUENCES, Benchmark, perturbation_sequence, source_frame

CASES: list[tuple[Benchmark, str]] = [(benchmark, kind) for benchmark in ("imagenet", "cifar") for kind in SEQUENCES]
NOISE = ["gaussian_noise", "shot_noise", "speckle_noise"]
RANDOM = [*NOISE, "snow", "spatter"]


def source(benchmark: Benchmark) -> Tensor:
    if benchmark == "cifar":
        return golden.picture("cifar32")[0]
    array = golden.picture("imagenet224")[0].permute(1, 2, 0).numpy()
    return source_frame(Image.fromarray(array).crop((0, 0, 224, 200)))


def crop(image: Tensor, side: int) -> Tensor:
    top, left = ((n - side) // 2 for n in image.shape[1:])
    return image[:, top : top + side, left : left + side]


def clean_frames(benchmark: Benchmark, kind: str) -> list[int]:
    image = source(benchmark)
    film = perturbation_sequence(image, kind, benchmark=benchmark)
    return [i for i, frame in enumerate(film) if torch.equal(frame, crop(image, film.shape[-1]))]


def test_ten_kinds_count_and_four_are_extra() -> None:
    assert [s.name for s in SEQUENCES.values() if s.is_extra] == ["speckle_noise", "gaussian_blur", "spatter", "shear"]
    assert len(SEQUENCES) == 14
    assert [s.name for s in SEQUENCES.values() if s.is_noise] == NOISE


def test_the_source_has_a_shorter_side_of_256() -> None:
    assert source_frame(Image.new("L", (500, 300))).shape == (3, 256, 426)
    assert source_frame(Image.new("RGB", (300, 500))).shape == (3, 426, 256)
    assert source_frame(Image.new("RGB", (300, 300)), "cifar").shape == (3, 32, 32)


@pytest.mark.parametrize(("benchmark", "kind"), CASES)
def test_films_have_the_published_length_and_size(benchmark: Benchmark, kind: str) -> None:
    frames = {("imagenet", "translate"): 41, ("cifar", "translate"): 16, ("cifar", "motion_blur"): 21}.get(
        (benchmark, kind), 31
    )
    image = source(benchmark)
    before = image.clone()
    film = perturbation_sequence(image, kind, benchmark=benchmark)
    side = 224 if benchmark == "imagenet" else 32
    assert film.shape == (frames, 3, side, side)
    assert film.dtype == torch.uint8
    assert frames == SEQUENCES[kind].frames(benchmark)
    assert torch.equal(image, before)


@pytest.mark.parametrize("benchmark", ["imagenet", "cifar"])
@pytest.mark.parametrize("kind", NOISE)
def test_noise_films_start_clean(benchmark: Benchmark, kind: str) -> None:
    assert clean_frames(benchmark, kind) == [0]


@pytest.mark.parametrize("benchmark", ["imagenet", "cifar"])
@pytest.mark.parametrize("kind", ["brightness", "rotate", "tilt", "shear"])
def test_the_frame_in_the_middle_is_clean(benchmark: Benchmark, kind: str) -> None:
    assert clean_frames(benchmark, kind) == [15]


def test_films_are_clean_where_nothing_moves_or_grows() -> None:
    assert clean_frames("imagenet", "translate") == [20]
    assert clean_frames("cifar", "translate") == [7]
    assert clean_frames("imagenet", "scale") == [24]
    assert clean_frames("cifar", "scale") == [15]
    assert clean_frames("cifar", "zoom_blur") == [0]


def test_translating_moves_by_whole_pixels_and_uncovers_black() -> None:
    image = source("cifar")
    film = perturbation_sequence(image, "translate", benchmark="cifar")
    assert torch.equal(film[10, :, :, 3:], image[:, :, :-3])
    assert film[10, :, :, :3].max() == 0


def test_scaling_by_half_halves_the_image() -> None:
    film = perturbation_sequence(torch.full((3, 256, 256), 200, dtype=torch.uint8), "scale")
    assert (film[4, 0] > 100).sum() == 128**2


def test_rotating_there_and_back_is_symmetric() -> None:
    image = source("cifar")
    film = perturbation_sequence(image, "rotate", benchmark="cifar")
    mirrored = perturbation_sequence(image.flip(-1), "rotate", benchmark="cifar")
    assert golden.difference(film, mirrored.flip(0, -1))[0] <= 1


def test_water_runs_down() -> None:
    film = perturbation_sequence(torch.zeros(3, 256, 256, dtype=torch.uint8), "spatter").double()[:, 0]

    def likeness(fall: int) -> Tensor:
        return torch.corrcoef(torch.stack([film[0].roll(fall, 0).flatten(), film[2].flatten()]))[0, 1]

    assert max(range(-6, 7), key=likeness) in (3, 4)  # twice 0.05 * -1 + 0.15 * 1 + 0.7 * 2 rows


def test_flakes_stay_while_their_streaks_turn() -> None:
    film = perturbation_sequence(torch.zeros(3, 256, 256, dtype=torch.uint8), "snow").double().flatten(1)
    assert torch.corrcoef(film[14:16])[0, 1] > 0.5
    assert len({frame.sum().item() for frame in film}) > 20


@pytest.mark.parametrize("kind", RANDOM)
def test_films_are_reproducible_by_sample_id(kind: str) -> None:
    image = source("cifar")
    first, again, other = (perturbation_sequence(image, kind, benchmark="cifar", sample_id=i) for i in ("a", "a", "b"))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("kind", NOISE)
def test_noise_is_fresh_in_each_frame_and_grows_with_the_level(kind: str) -> None:
    image = source("cifar")
    films = [perturbation_sequence(image, kind, benchmark="cifar", level=level).double() for level in (1, 2, 3)]
    assert not torch.equal(films[0][1], films[0][2])
    spread = [float((film - image.double()).std()) for film in films]
    assert spread == sorted(spread)


@pytest.mark.parametrize(("benchmark", "sd"), [("imagenet", (0.03, 0.05, 0.08)), ("cifar", (0.02, 0.04, 0.06))])
def test_gaussian_noise_has_the_published_strength(benchmark: Benchmark, sd: tuple[float, ...]) -> None:
    image = torch.full_like(source(benchmark), 128)
    for level, strength in enumerate(sd, 1):
        film = perturbation_sequence(image, "gaussian_noise", benchmark=benchmark, level=level)[1:].double()
        assert float(film.std()) == pytest.approx(255 * strength, rel=0.02)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (dict(kind="gausian_noise"), "gaussian_noise"),
        (dict(kind="rotate", level=2), "level=2"),
        (dict(kind="shot_noise", level=4), "level=4"),
        (dict(kind="rotate", benchmark="tiny"), "'imagenet' or 'cifar'"),
        (dict(kind="rotate", benchmark="imagenet"), "source_frame"),
    ],
)
def test_impossible_options_are_named(options: dict, named: str) -> None:
    with refused(ValueError, named):
        perturbation_sequence(source("cifar"), **{"benchmark": "cifar", **options})
