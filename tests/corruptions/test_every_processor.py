"""Corrupted pictures, scenes and crops of them are the same bytes whatever vector instructions and threads libraries use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from checksums import checksums

PROGRAM = Path(__file__).with_name("checksums.py")
CAPABILITIES = ("DEFAULT", "AVX2", "AVX512")
"""As PyTorch names them, each with the instructions of those before it."""
OLDEST = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "OMP_NUM_THREADS": "1",
}
OLDER = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AVX2",
    "OMP_NUM_THREADS": "1",
}
EACH = [
    {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL"},
    {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL"},
    {"ATEN_CPU_CAPABILITY": "default"},
    {"ATEN_CPU_CAPABILITY": "avx2"},
    {"ATEN_CPU_CAPABILITY": "avx512"},
    {"MKL_CBWR": "AVX2"},
    {"MKL_CBWR": "COMPATIBLE"},
    {"OMP_NUM_THREADS": "1"},
    {"OMP_NUM_THREADS": "3"},
]


def in_another_process(variables: dict[str, str], pictures: int) -> dict[str, str]:
    """The checksums with these instructions; without those that this processor does not have."""
    has = CAPABILITIES.index(torch.backends.cpu.get_cpu_capability())
    wants = variables.get("ATEN_CPU_CAPABILITY", "default").upper()
    if CAPABILITIES.index(wants) > has:
        variables = {name: value for name, value in variables.items() if name != "ATEN_CPU_CAPABILITY"}
    command = [sys.executable, str(PROGRAM), "--pictures", str(pictures)]
    run = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def different(one: dict[str, str], other: dict[str, str]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if one[name] != other[name]]


def test_older_processors_give_the_same_bytes() -> None:
    here = checksums(1)
    assert different(here, in_another_process(OLDEST, 1)) == []
    assert different(here, in_another_process(OLDER, 1)) == []


@pytest.fixture(scope="module")
def of_four() -> dict[str, str]:
    return checksums(4)


@pytest.mark.slow
@pytest.mark.parametrize("variables", EACH, ids=lambda variables: "-".join(*variables.items()).replace(" ", "-"))
def test_every_choice_of_instructions_gives_the_same_bytes(variables: dict[str, str], of_four: dict[str, str]) -> None:
    assert different(of_four, in_another_process(variables, 4)) == []
