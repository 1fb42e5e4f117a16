"""Adjacent small segments are merged within the bounds of a segment."""

from __future__ import annotations

from tidelog.storage.compaction.segment_groups import SourceSegment, group_segments


def sources(
    *sizes: int, step: int = 10, index_bytes: int = 8, time_index_bytes: int = 12
) -> list[SourceSegment]:
    return [
        SourceSegment(
            number * step,
            (number + 1) * step,
            size,
            index_bytes,
            time_index_bytes,
            created_ms=0,
            first_dirty_position=0,
        )
        for number, size in enumerate(sizes)
    ]


def sizes_of(groups: list[list[SourceSegment]]) -> list[list[int]]:
    return [[source.size_bytes for source in group] for group in groups]


def test_groups_are_limited_by_the_segment_size() -> None:
    assert sizes_of(group_segments(sources(3, 3, 4, 1, 20, 1, 1), 10, 1000)) == [[3, 3, 4], [1], [20], [1, 1]]


def test_groups_are_limited_by_the_index_size() -> None:
    assert sizes_of(group_segments(sources(1, 1, 1, 1, 1), 10, 16)) == [[1], [1], [1], [1], [1]]
    assert sizes_of(group_segments(sources(1, 1, 1, 1, 1), 10, 24)) == [[1, 1], [1, 1], [1]]


def test_groups_are_limited_by_the_relative_offset_of_an_index() -> None:
    assert sizes_of(group_segments(sources(1, 1, 1, step=2**30), 10, 1000)) == [[1, 1], [1]]
    assert sizes_of(group_segments(sources(1, 0, 0, step=2**31), 10, 1000)) == [[1, 0, 0]]
