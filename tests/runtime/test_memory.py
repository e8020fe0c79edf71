"""Work that does not fit memory says what to do."""

from __future__ import annotations

import pytest
import torch

from robustvit.runtime.memory import fits_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
    ],
    ids=["python", "cuda", "linux", "windows"],
)
def test_the_error_names_the_batch_the_size_and_the_option(error: Exception) -> None:
    with pytest.raises(RuntimeError, match=r"32 images of 224x160 pixels.*--batch-size"), fits_memory(32, (224, 160)):
        raise error


def test_a_tensor_that_is_too_large_for_any_machine_is_recognised() -> None:
    with pytest.raises(RuntimeError, match=r"7 images of 8x8 pixels"), fits_memory(7, (8, 8)):
        torch.empty(2**46, dtype=torch.uint8)


def test_a_single_image_is_not_told_to_lower_the_batch_size() -> None:
    with pytest.raises(RuntimeError, match=r"1 image of 8x8 pixels.*--img-size"), fits_memory(1, (8, 8)):
        raise MemoryError


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"), fits_memory(2, (8, 8)):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
