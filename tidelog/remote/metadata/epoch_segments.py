"""Which segment serves which offsets of one leader epoch.

    finished 0-100 as A                       0:A
    finished 101-200 as B                     0:A            101:B
    finished 50-150 as C (a new leader)       0:A    50:C            151:B
    C is deleted                              0:A    50:A    101:B   151:B

Of the segments that contain an offset and are not being deleted, the one that was finished last serves it.
After a change of leaders, the new leader may copy records of the former one again, with other segment
boundaries (KAFKA-16890); after an unclean election its copy matches the log. The result depends only on the
segments and the order in which they were finished, not on deletions meanwhile.

Source: RemoteLogLeaderEpochState of Apache Kafka 4.3, which loses offsets in such cases.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.metadata.segment_table import SegmentTable


class EpochSegments:
    """Ranges of one epoch, each from its start to the start of the next one or to the end of its segment.

    Invariant: starts strictly increase; a known row has a range or is unreferenced, never both; an offset
    that a finished segment contains is in a range; `_overlaid` has every finished row that is partly or
    completely hidden; `_txn_rows` has the finished rows that may have aborted transactions, by their starts.
    Units: ends are inclusive.
    """

    __slots__ = (
        "_epoch",
        "_overlaid",
        "_rows",
        "_starts",
        "_table",
        "_txn_rows",
        "_txn_starts",
        "_unreferenced",
        "highest_offset",
    )

    def __init__(self, table: SegmentTable, epoch: LeaderEpoch) -> None:
        self._table = table
        self._epoch = epoch
        self._starts = array("q")
        self._rows = array("i")
        self._unreferenced: set[int] = set()
        self._overlaid: set[int] = set()
        self._txn_starts = array("q")
        self._txn_rows = array("i")
        self.highest_offset: Offset | None = None

    def advance_highest_offset(self, offset: Offset) -> None:
        """Advance `highest_offset` to `offset` unless it is larger already."""
        if self.highest_offset is None or offset > self.highest_offset:
            self.highest_offset = offset

    def add_started(self, row: int) -> None:
        """Add a copy that has started; readers do not use it yet."""
        self._unreferenced.add(row)

    def add_finished(self, row: int) -> None:
        """Make the segment in `row` serve its offsets of the epoch from now on."""
        start, end = self._span(row)
        self.advance_highest_offset(end)
        if end < start:
            return  # it lists the epoch but has no record of it
        self._unreferenced.discard(row)
        if not self._table.is_txn_index_empty(row):
            index = bisect_right(self._txn_starts, start)
            self._txn_starts.insert(index, start)
            self._txn_rows.insert(index, row)
        if not self._starts or self._span(self._rows[-1])[1] < start:
            self._starts.append(start)
            self._rows.append(row)
        else:
            self._overlay(row, start, end)

    def restore_finished(self, row: int, start: Offset, end: Offset, is_txn_index_empty: bool) -> None:
        """Make a new row serve its offsets, which are known: a start restores each segment."""
        highest = self.highest_offset
        if (highest is None or highest < start) and is_txn_index_empty:
            self.highest_offset = end
            self._starts.append(start)
            self._rows.append(row)
        else:
            self.add_finished(row)

    def hide(self, row: int) -> None:
        """Hide the segment in `row` from readers; segments below it become visible again."""
        for index in reversed(self._pieces_of(row)):
            start, end = self._starts[index], self._end_of(index)
            del self._starts[index], self._rows[index]
            self._uncover(start, end, row)
        self._overlaid.discard(row)
        self._unreferenced.add(row)
        if not self._table.is_txn_index_empty(row):
            self._forget_txn_index(row)

    def remove(self, row: int) -> None:
        """Remove the segment in `row`, which was hidden before."""
        self._unreferenced.discard(row)

    def serving(self, offset: Offset) -> int | None:
        """Return the row of the segment that serves `offset`, None if there is none."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or self._span(self._rows[index])[1] < offset:
            return None
        return self._rows[index]

    def serving_with_txn_index(self, offset: Offset) -> int | None:
        """Return the first row that serves `offset` or a later one and may have aborted transactions.

        Most segments of most logs have none; they are skipped (KAFKA-16780).
        """
        if not self._txn_rows:
            return None
        row = self.serving(offset)
        if row is not None and not self._table.is_txn_index_empty(row):
            return row
        nearest: tuple[Offset, int] | None = None
        for other in self._overlaid:
            if not self._table.is_txn_index_empty(other):
                nearest = self._nearer(nearest, other, offset)
        for index in range(bisect_right(self._txn_starts, offset), len(self._txn_rows)):
            if nearest is not None and self._txn_starts[index] >= nearest[0]:
                break
            nearest = self._nearer(nearest, self._txn_rows[index], offset)
        return None if nearest is None else nearest[1]

    def rows(self) -> list[int]:
        """Return all rows of the epoch, by the starts of their segments."""
        rows = list(dict.fromkeys(self._rows)) if self._overlaid else list(self._rows)
        if self._unreferenced or self._overlaid:
            rows += self._unreferenced
            rows.sort(key=self._table.start_offset)
        return rows

    # -- for excerpts

    @property
    def served_range(self) -> tuple[Offset, Offset] | None:
        """The first and the last offset that is served; None if there is none."""
        return (self._starts[0], self._end_of(len(self._starts) - 1)) if self._starts else None

    def row_count_max(self) -> int:
        """Return an upper bound of the number of rows of the epoch."""
        return len(self._rows) + len(self._unreferenced)

    def irregular_count_max(self) -> int:
        """Return an upper bound of the number of irregular rows that other rows do not hide or overlap."""
        return len(self._overlaid) + len(self._unreferenced)

    def irregular_rows(self) -> set[int]:
        """Return the rows that are not finished, or overlap another row: all that overlap are among them."""
        rows = self._unreferenced | self._overlaid
        for overlaid_row in self._overlaid:
            start, end = self._span(overlaid_row)
            first = max(bisect_right(self._starts, start) - 1, 0)
            rows.update(self._rows[first : bisect_right(self._starts, end)])
        return rows

    def serving_rows(self) -> Iterator[int]:
        """Return the rows that serve offsets, in the order of these; a row may be repeated."""
        return iter(self._rows)

    # -- private

    def _span(self, row: int) -> tuple[Offset, Offset]:
        return self._table.epoch_span(row, self._epoch)

    def _end_of(self, index: int) -> Offset:
        end = self._span(self._rows[index])[1]
        return min(end, self._starts[index + 1] - 1) if index + 1 < len(self._starts) else end

    def _overlay(self, row: int, start: Offset, end: Offset) -> None:
        first = bisect_left(self._starts, start)
        end_index = bisect_right(self._starts, end)
        starts, rows = array("q", (start,)), array("i", (row,))
        overlaid_rows = set(self._rows[first:end_index])
        if end_index and self._end_of(end_index - 1) > end:
            starts.append(end + 1)
            rows.append(self._rows[end_index - 1])
        if first and self._end_of(first - 1) >= start:
            overlaid_rows.add(self._rows[first - 1])
        self._starts[first:end_index] = starts
        self._rows[first:end_index] = rows
        self._overlaid |= overlaid_rows
        self._unreferenced.update(
            overlaid_row for overlaid_row in overlaid_rows if not self._pieces_of(overlaid_row)
        )

    def _uncover(self, start: Offset, end: Offset, hidden_row: int) -> None:
        """Fill the range [`start`, `end`] with the segments below it."""
        candidates = []
        for row in self._overlaid:
            first, last = self._span(row)
            if row != hidden_row and first <= end and last >= start:
                candidates.append((self._table.finish_order(row), row, max(first, start), min(last, end)))
        starts, rows = array("q"), array("i")
        for position in sorted({begin for *_, first, last in candidates for begin in (first, last + 1)}):
            covering = [(order, row) for order, row, first, last in candidates if first <= position <= last]
            if covering:
                starts.append(position)
                rows.append(max(covering)[1])
        index = bisect_left(self._starts, start)
        self._starts[index:index] = starts
        self._rows[index:index] = rows
        self._unreferenced.difference_update(rows)

    def _nearer(
        self, nearest: tuple[Offset, int] | None, row: int, offset: Offset
    ) -> tuple[Offset, int] | None:
        """Return `nearest`, or the first offset after `offset` that `row` serves if that is smaller."""
        start = next((self._starts[i] for i in self._pieces_of(row) if self._starts[i] > offset), None)
        return nearest if start is None or (nearest is not None and nearest[0] <= start) else (start, row)

    def _forget_txn_index(self, row: int) -> None:
        start = self._span(row)[0]
        for index in range(bisect_left(self._txn_starts, start), bisect_right(self._txn_starts, start)):
            if self._txn_rows[index] == row:
                del self._txn_starts[index], self._txn_rows[index]
                return

    def _pieces_of(self, row: int) -> list[int]:
        start, end = self._span(row)
        first = bisect_left(self._starts, start)
        end_index = bisect_right(self._starts, end)
        return [index for index in range(first, end_index) if self._rows[index] == row]
