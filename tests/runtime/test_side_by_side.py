"""Calls that run beside each other."""

from __future__ import annotations

import threading
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robustvit.runtime.cores import available_cores
from robustvit.runtime.side_by_side import MOST_AT_ONCE, free_cores, side_by_side


@given(st.integers(0, 20), st.integers(1, 5))
def test_results_come_in_the_order_of_the_calls(count: int, cores: int) -> None:
    done = threading.Event()

    def call(i: int) -> int:
        if i % cores:  # all but one wait for another
            done.wait(0.001)
        return i

    assert list(side_by_side((partial(call, i) for i in range(count)), cores)) == list(range(count))


def test_as_many_calls_as_cores_run_at_once() -> None:
    meeting = threading.Barrier(3, timeout=30)  # whoever waits alone raises
    assert len(list(side_by_side([meeting.wait] * 6, 3))) == 6


def test_calls_run_with_one_thread_of_pytorch_and_leave_that_of_the_caller() -> None:
    torch.set_num_threads(2)
    try:
        assert list(side_by_side([torch.get_num_threads] * 4, 2)) == [1] * 4
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_with_one_core_a_call_runs_when_its_result_is_wanted() -> None:
    begun: list[int] = []
    results = side_by_side((partial(begun.append, i) for i in range(3)), 1)
    next(results)
    assert begun == [0]


@pytest.mark.parametrize("cores", [1, 3])
def test_an_error_comes_in_the_place_of_its_result(cores: int) -> None:
    def fail() -> int:
        raise ValueError("the second")

    results = side_by_side([lambda: 1, fail, lambda: 3], cores)
    assert next(results) == 1
    with pytest.raises(ValueError, match="the second"):
        next(results)


def test_a_closed_iterator_begins_no_more_calls() -> None:
    begun: list[int] = []
    results = side_by_side((partial(begun.append, i) for i in range(1000)), 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert len(begun) <= 4


def test_a_network_on_the_cpu_leaves_one_core_and_another_device_all() -> None:
    assert free_cores("cpu") == 1
    assert free_cores(torch.device("cuda", 0)) == min(MOST_AT_ONCE, available_cores())
