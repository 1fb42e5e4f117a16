"""Which segment serves which offsets of one leader epoch.

    finished 0-100 as A                       0:A
    finished 101-200 as B                     0:A            101:B
    finished 50-150 as C (a new leader)       0:A    50:C            151:B

An offset is served by the segment that was finished last of those that hold it: after a change of leaders
the new one may copy again what the old one had copied, in other pieces (KAFKA-16890), and after an unclean
election what it copied is what the log has. A segment of which nothing serves any more stays known as
unreferenced, until it is deleted. What a deleted segment served is not given back to an older one.

Source: RemoteLogLeaderEpochState of Apache Kafka 4.3.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import TypeAlias

from protocol.ids import Offset

SpanOf: TypeAlias = Callable[[int], tuple[Offset, Offset]]
"""The first and the last offset (inclusive) of the epoch in the segment of a row."""


class EpochSegments:
    """Pieces of one epoch, each from its start to the next one's or to its segment's end.

    Invariant: starts strictly increase; a row that is known has a piece or is unreferenced, never both.
    Units: ends are inclusive.
    """

    __slots__ = ("_rows", "_starts", "_unreferenced", "finished_size_bytes", "highest_offset")

    def __init__(self) -> None:
        self._starts = array("q")
        self._rows = array("i")
        self._unreferenced: set[int] = set()
        self.highest_offset: Offset | None = None
        self.finished_size_bytes = 0

    def started(self, row: int) -> None:
        """A copy has begun: known, but not for readers."""
        self._unreferenced.add(row)

    def finished(self, row: int, span_of: SpanOf) -> None:
        """The segment in `row` serves what it has of the epoch from now on."""
        start, end = span_of(row)
        if self.highest_offset is None or end > self.highest_offset:
            self.highest_offset = end
        if end < start:
            return  # it names the epoch but holds nothing of it
        self._unreferenced.discard(row)
        if not self._starts or span_of(self._rows[-1])[1] < start:
            self._starts.append(start)
            self._rows.append(row)
        else:
            self._overlay(row, start, end, span_of)

    def withdrawn(self, row: int, span_of: SpanOf) -> None:
        """The segment in `row` is for readers no more."""
        for index in reversed(self._pieces_of(row, span_of)):
            del self._starts[index], self._rows[index]
        self._unreferenced.add(row)

    def forgotten(self, row: int) -> None:
        """Nothing is left of the segment in `row`, which was withdrawn."""
        self._unreferenced.discard(row)

    def serving(self, offset: Offset, span_of: SpanOf) -> int | None:
        """The row of the segment that holds `offset` for readers."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or span_of(self._rows[index])[1] < offset:
            return None
        return self._rows[index]

    def serving_from(self, offset: Offset, span_of: SpanOf) -> Iterator[int]:
        """The rows that serve `offset` or anything behind it, by offset."""
        index = max(0, bisect_right(self._starts, offset) - 1)
        if index < len(self._rows) and span_of(self._rows[index])[1] < offset:
            index += 1
        return (self._rows[i] for i in range(index, len(self._rows)))

    def referenced(self) -> list[int]:
        """The rows that serve something, by the first offset that they serve."""
        return list(dict.fromkeys(self._rows))

    def unreferenced(self) -> frozenset[int]:
        """The rows that serve nothing: copies under way, what was replaced, what is being deleted."""
        return frozenset(self._unreferenced)

    def _overlay(self, row: int, start: Offset, end: Offset, span_of: SpanOf) -> None:
        first = bisect_left(self._starts, start)
        behind = bisect_right(self._starts, end)
        covered = set(self._rows[first:behind])
        starts, rows = array("q", (start,)), array("i", (row,))
        if behind and span_of(self._rows[behind - 1])[1] > end:
            starts.append(end + 1)
            rows.append(self._rows[behind - 1])
        self._starts[first:behind] = starts
        self._rows[first:behind] = rows
        self._unreferenced.update(other for other in covered if not self._pieces_of(other, span_of))

    def _pieces_of(self, row: int, span_of: SpanOf) -> list[int]:
        start, end = span_of(row)
        first = bisect_left(self._starts, start)
        behind = bisect_right(self._starts, end)
        return [index for index in range(first, behind) if self._rows[index] == row]
