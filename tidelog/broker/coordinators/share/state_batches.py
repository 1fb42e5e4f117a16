"""Combines ranges of records with their delivery states into ranges that do not overlap.

Where ranges overlap, the one with the higher delivery count has priority, then the one with the higher
delivery state. Neighbours with the same state and count become one range, except a neighbour that is complete
before its successor is known. Apache Kafka has the same exception, and the records of both are thus equal.

Source: PersisterStateBatchCombiner of Apache Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from tidelog.broker.coordinators.share.persister import ShareStateBatch
from tidelog.protocol.ids import Offset

_FIRST_OFFSET: Final = attrgetter("first_offset")
_LAST_OFFSET: Final = attrgetter("last_offset")


class _Range(NamedTuple):
    """A batch whose fields are in the order in which batches are combined."""

    first: Offset
    last: Offset
    delivery_count: int
    delivery_state: int

    @property
    def priority(self) -> tuple[int, int]:
        return self.delivery_count, self.delivery_state


def combine_batches(
    batches: Iterable[ShareStateBatch], start_offset: Offset | None
) -> tuple[ShareStateBatch, ...]:
    """Return the batches without overlaps and sorted, from `start_offset` on; None keeps all offsets."""
    ranges = [
        _Range(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)
        for batch in batches
    ]
    if start_offset is not None:
        ranges = [
            each if each.first >= start_offset else each._replace(first=start_offset)
            for each in ranges
            if each.last >= start_offset
        ]
    return tuple(
        ShareStateBatch(each.first, each.last, each.delivery_state, each.delivery_count)
        for each in _without_overlaps(ranges)
    )


def add_batches(
    combined: Sequence[ShareStateBatch], added: Sequence[ShareStateBatch], start_offset: Offset | None
) -> tuple[ShareStateBatch, ...]:
    """Return what `combine_batches` returns for both; `combined` is a result of it.

    Only the combined batches around the added ones are sorted and compared with others.
    """
    if start_offset is not None:
        # The batches below the start offset are dropped first.
        kept = bisect_left(combined, start_offset, key=_LAST_OFFSET)
        combined = combined[kept:]
        if combined and combined[0].first_offset < start_offset:
            combined = (replace(combined[0], first_offset=start_offset), *combined[1:])
        added = [batch for batch in added if batch.last_offset >= start_offset]
    if not added:
        return _with_equal_neighbours_merged(combined)
    first = min(batch.first_offset for batch in added)
    last = max(batch.last_offset for batch in added)
    begin = bisect_left(combined, first - 1, key=_LAST_OFFSET)
    end = max(begin, bisect_right(combined, last + 1, key=_FIRST_OFFSET))
    before = _with_equal_neighbours_merged(combined[:begin])
    affected = combine_batches((*before[-1:], *combined[begin:end], *added), start_offset)
    after = _with_equal_neighbours_merged((*affected[-1:], *combined[end:]))
    return (*before[:-1], *affected[:-1], *after)


def _with_equal_neighbours_merged(batches: Sequence[ShareStateBatch]) -> tuple[ShareStateBatch, ...]:
    """Return sorted batches without overlaps; contiguous ones with the same state and count become one."""
    if not any(map(_are_equal_neighbours, batches, islice(batches, 1, None))):
        return tuple(batches)
    merged: list[ShareStateBatch] = []
    for batch in batches:
        if merged and _are_equal_neighbours(merged[-1], batch):
            merged[-1] = replace(merged[-1], last_offset=batch.last_offset)
        else:
            merged.append(batch)
    return tuple(merged)


def _are_equal_neighbours(lower: ShareStateBatch, upper: ShareStateBatch) -> bool:
    return (
        lower.last_offset + 1 == upper.first_offset
        and lower.delivery_state == upper.delivery_state
        and lower.delivery_count == upper.delivery_count
    )


def _without_overlaps(ranges: list[_Range]) -> list[_Range]:
    """Combine pairs of neighbours, from the lowest offset on, until no pair can be combined."""
    heapify(ranges)
    complete: list[_Range] = []
    while ranges:
        lower = heappop(ranges)
        if ranges and _can_be_combined(lower, ranges[0]):
            for part in _combined(lower, heappop(ranges)):
                heappush(ranges, part)
        else:
            complete.append(lower)
    return complete


def _can_be_combined(lower: _Range, upper: _Range) -> bool:
    """Return whether the ranges overlap, or are contiguous and equal in state and count."""
    if upper.first <= lower.last:
        return True
    return lower.last + 1 == upper.first and lower.priority == upper.priority


def _combined(lower: _Range, upper: _Range) -> list[_Range]:
    """Return the ranges for two that can be combined, where `lower` is before `upper` in their order."""
    if lower.priority == upper.priority:
        return [lower._replace(last=max(lower.last, upper.last))]
    if upper.priority < lower.priority:
        if upper.last <= lower.last:
            return [lower]
        return [lower, upper._replace(first=lower.last + 1)]
    parts = [upper]
    if lower.first < upper.first:
        parts.append(lower._replace(last=upper.first - 1))
    if lower.last > upper.last:
        parts.append(lower._replace(first=upper.last + 1))
    return parts
