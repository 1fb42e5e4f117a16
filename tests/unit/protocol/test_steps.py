"""Work in steps: copies of large fields."""

from __future__ import annotations

import tracemalloc

import pytest

from tidelog.protocol.steps import BYTES_PER_STEP, copied, run_steps


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
