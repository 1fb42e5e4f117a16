"""The segments that decide about the expiration of a log, without reading the others of a long log.

A segment is regular if it is finished, if all its records belong to the log, and if no other finished segment
has one of its offsets. Regular segments have the same order by their starts, by their ends and by their
epochs, so that the oldest ones are found without a search. All segments that are not regular are returned;
usually there are few.

Whether the records of an epoch belong to the log is decided for all its segments together: they do if the
first and the last offset of the epoch in remote storage do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.protocol.ids import LeaderEpoch
from tidelog.remote.metadata.epoch_segments import EpochSegments
from tidelog.remote.metadata.segment_table import SegmentTable
from tidelog.remote.ports.metadata_manager import EpochRanges, SegmentExcerpt
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentState

OLDEST_MAX: Final = 64
"""The number of regular segments in an excerpt."""
IRREGULAR_MAX: Final = 256

_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


def read_excerpt(
    table: SegmentTable, epochs: Mapping[LeaderEpoch, EpochSegments], ranges: EpochRanges
) -> SegmentExcerpt | None:
    """Return the OLDEST_MAX oldest regular segments, and all others that are not regular.

    `ranges` returns the offsets of an epoch in the log. The result is None if there are more than
    IRREGULAR_MAX irregular segments.
    """
    regular = {epoch for epoch, segments in epochs.items() if _is_in(ranges, epoch, segments)}
    irregular_rows = _irregular_rows(epochs, regular)
    if irregular_rows is None:
        return None
    oldest, has_more = _oldest_rows(epochs, sorted(regular), irregular_rows)
    segments = [table.get(row) for row in (*oldest, *irregular_rows)]
    listed_bytes = sum(segment.segment_size_bytes for segment in segments if segment.state is _FINISHED)
    return SegmentExcerpt(
        sorted(segments, key=lambda segment: (segment.start_offset, segment.end_offset)),
        last_regular=table.get(oldest[-1]) if has_more else None,
        other_bytes=table.finished_bytes - listed_bytes,
        other_end_offset=_end_offset(epochs, regular) if has_more else 0,
        segment_count=len(table),
        size_bytes=table.size_bytes,
    )


def _is_in(ranges: EpochRanges, epoch: LeaderEpoch, segments: EpochSegments) -> bool:
    served, of_log = segments.served_range, ranges(epoch)
    if served is None:
        return True
    return of_log is not None and of_log[0] <= served[0] and served[1] < of_log[1]


def _irregular_rows(
    epochs: Mapping[LeaderEpoch, EpochSegments], regular: set[LeaderEpoch]
) -> dict[int, None] | None:
    rows: dict[int, None] = {}
    for epoch, segments in epochs.items():
        if epoch in regular:
            if segments.irregular_count_max() > IRREGULAR_MAX:
                return None
            rows.update(dict.fromkeys(segments.irregular_rows()))
        else:
            if segments.row_count_max() > IRREGULAR_MAX:
                return None
            rows.update(dict.fromkeys(segments.rows()))
        if len(rows) > IRREGULAR_MAX:
            return None
    return rows


def _oldest_rows(
    epochs: Mapping[LeaderEpoch, EpochSegments], regular: Iterable[LeaderEpoch], irregular: Mapping[int, None]
) -> tuple[list[int], bool]:
    """Return the oldest regular rows, and whether there are more."""
    oldest: dict[int, None] = {}
    for epoch in regular:
        for row in epochs[epoch].serving_rows():
            if row in irregular or row in oldest:
                continue
            if len(oldest) == OLDEST_MAX:
                return list(oldest), True
            oldest[row] = None
    return list(oldest), False


def _end_offset(epochs: Mapping[LeaderEpoch, EpochSegments], regular: set[LeaderEpoch]) -> int:
    served = (epochs[epoch].served_range for epoch in regular)
    return max(last + 1 for _, last in filter(None, served))
