"""Memory of results is used again only when nobody can see it any more."""

from __future__ import annotations

import threading

import torch

import robustvit as rv

IMAGES = torch.randint(0, 256, (8, 3, 224, 224), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_results_that_are_held_stay_as_they_are() -> None:
    results = [rv.corrupt(IMAGES, "contrast", severity) for severity in (1, 2, 3)]
    copies = [result.clone() for result in results]
    for severity in range(1, 6):
        rv.corrupt(IMAGES, "brightness", severity)
    assert all(torch.equal(result, copy) for result, copy in zip(results, copies, strict=True))
    assert len({result.data_ptr() for result in results}) == 3


def test_a_view_or_an_array_of_a_result_keeps_it() -> None:
    result = rv.corrupt(IMAGES, "contrast", 2)
    copy, view, array = result.clone(), result[3, 1:], result.numpy()[2]
    del result
    for severity in range(1, 6):
        rv.corrupt(IMAGES, "brightness", severity)
    assert torch.equal(view, copy[3, 1:])
    assert (array == copy[2].numpy()).all()


def test_memory_of_a_result_that_is_gone_is_used_again() -> None:
    result = rv.corrupt(IMAGES, "contrast", 2)
    place = result.data_ptr()
    del result
    kept = [rv.corrupt(IMAGES, "contrast", severity) for severity in (3, 4, 5)]
    assert place in [other.data_ptr() for other in kept]


def test_threads_do_not_share_memory() -> None:
    expected = {severity: rv.corrupt(IMAGES, "contrast", severity).clone() for severity in range(1, 6)}
    wrong: list[int] = []

    def work(severity: int) -> None:
        for _ in range(8):
            if not torch.equal(rv.corrupt(IMAGES, "contrast", severity), expected[severity]):
                wrong.append(severity)

    threads = [threading.Thread(target=work, args=(severity,)) for severity in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
