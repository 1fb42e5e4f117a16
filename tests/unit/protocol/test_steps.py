"""Work in steps: copies of large fields, release of long arrays."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest

from tidelog.protocol.steps import BYTES_PER_STEP, append_in_steps, copied, release_in_steps, run_steps


@pytest.mark.parametrize("size", [0, 1, BYTES_PER_STEP, 3 * BYTES_PER_STEP + 7])
def test_a_copy_in_steps_has_the_same_bytes(size: int) -> None:
    buffer = bytearray(number % 251 for number in range(size))
    assert run_steps(copied(memoryview(buffer))) == buffer


def test_a_copy_in_steps_does_not_grow_so_that_no_step_moves_all_bytes() -> None:
    """The C library moved a field of 90 MB in one step, which blocked the event loop for 18 ms."""
    buffer = memoryview(bytes(16 * BYTES_PER_STEP))
    tracemalloc.start()
    try:
        steps = copied(buffer)
        next(steps)
        allocated_bytes, _ = tracemalloc.get_traced_memory()
        copy = run_steps(steps)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(copy) == len(buffer)
    assert allocated_bytes >= len(buffer)
    assert peak_bytes < len(buffer) + BYTES_PER_STEP


@pytest.mark.parametrize("size", [0, 1, BYTES_PER_STEP, 3 * BYTES_PER_STEP + 7])
def test_bytes_are_appended_in_steps_of_one_mebibyte(size: int) -> None:
    data, out = bytes(number % 251 for number in range(size)), bytearray(b"before")
    sizes = []
    for _ in append_in_steps(out, data):
        sizes.append(len(out))
    assert out == b"before" + data
    assert all(after - before <= BYTES_PER_STEP for before, after in pairwise([6, *sizes]))


def test_the_elements_of_arrays_are_released_in_steps() -> None:
    arrays = [[object() for _ in range(1_000)] for _ in range(2)]
    left = [sum(map(len, arrays)) for _ in release_in_steps(*arrays)]
    assert left[-1] == 0
    assert all(before - after <= 200 for before, after in pairwise([2_000, *left]))
