"""Acknowledged batches as runs of the same type."""

from __future__ import annotations

import pytest

from tidelog.broker.share_partitions.acknowledgement import AcknowledgedBatch, runs_of

ACCEPT, RELEASE = 1, 2


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((ACCEPT,), [(7, 10, ACCEPT)]),
        ((ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE), [(7, 8, ACCEPT), (8, 10, RELEASE)]),
    ],
)
def test_types_below_the_start_offset_are_not_read(
    types: tuple[int, ...], expected: list[tuple[int, int, int]]
) -> None:
    batch = AcknowledgedBatch(5, 9, types)
    assert list(runs_of(batch.from_offset(7))) == expected
    assert batch.from_offset(5) is batch
