"""Where each leader epoch starts in one partition's log; followers truncate to these offsets.

Source: KIP-101 (truncate by epoch, never by high watermark), KIP-279 (respond with the largest epoch
not above the requested one), org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset

NO_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of the first record written in it."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEndOffset(NamedTuple):
    """An epoch and the offset at which it ends (exclusive); (-1, -1) if it is not known."""

    epoch: LeaderEpoch
    end_offset: Offset


UNDEFINED: Final = EpochEndOffset(NO_LEADER_EPOCH, NO_OFFSET)


@dataclass(slots=True)
class LeaderEpochCache:
    """The epochs of one log, oldest first.

    Invariant: epochs and starts both strictly increase.
    I/O: none; `tidelog.storage.log.leader_epoch_file_cache` writes the file.
    """

    _epochs: list[LeaderEpoch] = field(default_factory=list)
    _starts: list[Offset] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[EpochEntry]) -> LeaderEpochCache:
        """Return a cache to which `entries` were assigned in their order."""
        cache = cls()
        for epoch, start in entries:
            cache.assign(epoch, start)
        return cache

    @property
    def entries(self) -> list[EpochEntry]:
        """A copy of all entries, oldest first."""
        return [EpochEntry(*entry) for entry in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest_epoch(self) -> LeaderEpoch | None:
        """The newest epoch, None if there is none."""
        return self._epochs[-1] if self._epochs else None

    @property
    def latest_entry(self) -> EpochEntry | None:
        """The newest epoch and its first offset, None if there is none."""
        return EpochEntry(self._epochs[-1], self._starts[-1]) if self._epochs else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """The oldest epoch of which the log still has records, and its first offset."""
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Record where `epoch` starts and drop contradicting entries; return whether anything changed."""
        assert epoch >= 0, f"leader epoch {epoch} is negative"
        assert start_offset >= 0, f"start offset {start_offset} of leader epoch {epoch} is negative"
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        self._epochs[keep:] = [epoch]
        self._starts[keep:] = [start_offset]
        return True

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEndOffset:
        """Return the largest epoch <= `epoch` and where it ends, for the response to OffsetForLeaderEpoch.

        The latest epoch ends at the log's end. An epoch older than all known ones ends where the oldest
        starts; the result for an epoch newer than all known ones, or -1, is UNDEFINED.
        """
        if epoch == NO_LEADER_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return EpochEndOffset(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        known = self._epochs[higher - 1] if higher else epoch
        return EpochEndOffset(known, self._starts[higher])

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch | None:
        """Return the epoch in which `offset` was or will be written; None below the oldest entry."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else None

    def start_offset_of(self, epoch: LeaderEpoch) -> Offset | None:
        """Return where exactly this epoch starts; None if it has no entry."""
        index = bisect_left(self._epochs, epoch)
        return self._starts[index] if index < len(self._epochs) and self._epochs[index] == epoch else None

    def previous_epoch(self, epoch: LeaderEpoch) -> LeaderEpoch | None:
        """Return the largest known epoch below `epoch`."""
        index = bisect_left(self._epochs, epoch)
        return self._epochs[index - 1] if index else None

    def next_epoch(self, epoch: LeaderEpoch) -> LeaderEpoch | None:
        """Return the smallest known epoch above `epoch`."""
        index = bisect_right(self._epochs, epoch)
        return self._epochs[index] if index < len(self._epochs) else None

    def entries_in_range(self, start_offset: Offset, end_offset: Offset) -> list[EpochEntry]:
        """Return the entries for the offsets from `start_offset` to `end_offset` (exclusive)."""
        part = LeaderEpochCache(list(self._epochs), list(self._starts))
        part.truncate_from_start(start_offset)
        part.truncate_from_end(end_offset)
        return part.entries

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Drop epochs that start at or above a log's new end; return whether anything changed."""
        if end_offset < 0:
            return False
        return self._keep(0, bisect_left(self._starts, end_offset))

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """Drop epochs that end at or below a log's new start; return whether anything changed.

        The epoch that contains the new start begins there now.
        """
        first = bisect_right(self._starts, start_offset) - 1
        if first < 0:
            return False
        has_moved = self._starts[first] != start_offset
        self._starts[first] = start_offset
        return self._keep(first, len(self._epochs)) or has_moved

    def clear(self) -> bool:
        """Drop all epochs; return whether there were any."""
        return self._keep(0, 0)

    def _keep(self, first: int, end: int) -> bool:
        before = len(self._epochs)
        self._epochs = self._epochs[first:end]
        self._starts = self._starts[first:end]
        return len(self._epochs) != before


def epoch_spans(
    entries: Sequence[tuple[LeaderEpoch, Offset]], end_offset: Offset
) -> Iterator[tuple[LeaderEpoch, Offset, Offset]]:
    """Return each epoch of `entries`, which are ordered, with its start offset and its end (exclusive).

    The last epoch ends at `end_offset`.
    """
    for index, (epoch, start) in enumerate(entries):
        end = entries[index + 1][1] if index + 1 < len(entries) else end_offset
        yield epoch, start, end


def entries_with_records(entries: Sequence[EpochEntry]) -> list[EpochEntry]:
    """Return the epochs that have records: of epochs with the same start offset, the last.

    `entries` are ordered, and the last epoch has records.
    """
    return [
        entry
        for index, entry in enumerate(entries)
        if index + 1 == len(entries) or entries[index + 1].start_offset != entry.start_offset
    ]
