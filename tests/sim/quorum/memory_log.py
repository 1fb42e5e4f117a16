"""The metadata log in memory, on a disk that loses unsynced changes.

`batches` are the contents as the process reads them. `_journal` has the changes since the last sync, oldest
first. A power cut undoes the newest of them, so that a prefix of the changes survives. Snapshots are renamed
into place when they are complete, so a snapshot either exists completely or not at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from tidelog.cluster.quorum.log import EpochEnd, SnapshotId
from tidelog.protocol.batch import iterate_headers


class StoredBatch(NamedTuple):
    """One complete batch of the log."""

    base_offset: int
    next_offset: int
    epoch: int
    is_control: bool
    data: bytes


class _Append(NamedTuple):
    batch: StoredBatch


class _Truncate(NamedTuple):
    offset: int
    removed: list[StoredBatch]


def split(data: bytes) -> list[StoredBatch]:
    """Return the consecutive batches in `data`."""
    return [
        StoredBatch(
            header.base_offset,
            header.next_offset,
            header.partition_leader_epoch,
            header.is_control,
            bytes(data[position : position + header.size_bytes]),
        )
        for position, header in iterate_headers(data)
    ]


class MemoryLog:
    """Implements `tidelog.cluster.quorum.log.RaftLog`; the log of a disk, which survives processes."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.start_epoch = 0
        self.high_watermark = 0
        self.refuses_to_truncate_committed = True
        self.batches: list[StoredBatch] = []
        self.snapshots: dict[SnapshotId, bytes] = {}
        self.on_append: Callable[[StoredBatch], None] = lambda batch: None
        self.on_truncate: Callable[[int, list[StoredBatch]], None] = lambda offset, removed: None
        self._bases: list[int] = []
        self._journal: list[_Append | _Truncate] = []
        self._incoming: dict[SnapshotId, bytearray] = {}

    @property
    def end_offset(self) -> int:
        """Return the offset of the next batch."""
        return self.batches[-1].next_offset if self.batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        """Return the epoch of the last batch, or of the snapshot if no batch follows it."""
        return self.batches[-1].epoch if self.batches else self.start_epoch

    def append(self, batches: bytes | bytearray | memoryview, epoch: int) -> None:
        """Append batches that continue the log, and set their offsets and epochs."""
        for batch in split(bytes(batches)):
            assert batch.base_offset == self.end_offset, f"{batch.base_offset} is not {self.end_offset}"
            assert batch.epoch >= self.last_epoch, f"epoch {batch.epoch} behind {self.last_epoch}"
            self._put(batch)
            self._journal.append(_Append(batch))
            self.on_append(batch)

    def truncate_to(self, offset: int) -> None:
        """Remove everything from `offset` on."""
        if self.refuses_to_truncate_committed:
            assert offset >= self.high_watermark, f"truncation to {offset} below {self.high_watermark}"
        self.high_watermark = min(self.high_watermark, offset)
        if offset >= self.end_offset:
            return
        removed = self._truncate(offset)
        self._journal.append(_Truncate(offset, removed))
        self.on_truncate(offset, removed)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch up to `epoch`, and its end."""
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].epoch <= epoch:
                low = middle + 1
            else:
                high = middle
        if low:
            return EpochEnd(self.batches[low - 1].epoch, self.batches[low - 1].next_offset)
        return EpochEnd(self.start_epoch, self.start_offset)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return complete batches from the one with `offset`, at least one if available."""
        if offset >= self.end_offset:
            return b""
        assert offset >= self.start_offset
        at = bisect_right(self._bases, offset) - 1
        parts = [self.batches[at].data]
        size = len(parts[0])
        for batch in self.batches[at + 1 :]:
            size += len(batch.data)
            if size > max_bytes:
                break
            parts.append(batch.data)
        return b"".join(parts)

    def advance_high_watermark(self, offset: int) -> None:
        """Mark everything below `offset` as committed."""
        assert self.high_watermark <= offset <= self.end_offset
        self.high_watermark = offset

    def latest_snapshot(self) -> SnapshotId | None:
        """Return the newest complete snapshot."""
        return max(self.snapshots, default=None)

    def earliest_snapshot(self) -> SnapshotId | None:
        """Return the oldest existing snapshot."""
        return min(self.snapshots, default=None)

    def read_snapshot(
        self, snapshot_id: SnapshotId, position: int, max_bytes: int
    ) -> tuple[bytes, int] | None:
        """Return a part of a snapshot and the total size."""
        data = self.snapshots.get(snapshot_id)
        if data is None:
            return None
        return data[position : position + max_bytes], len(data)

    def append_snapshot_chunk(
        self, snapshot_id: SnapshotId, position: int, chunk: bytes | memoryview
    ) -> None:
        """Append a part to a snapshot that is being fetched."""
        if position == 0:
            self._incoming = {snapshot_id: bytearray()}
        incoming = self._incoming[snapshot_id]
        assert position == len(incoming), f"chunk at {position} after {len(incoming)} bytes"
        incoming += chunk

    def finish_snapshot(self, snapshot_id: SnapshotId) -> bool:
        """Complete the fetched snapshot: the log starts at its end."""
        data = bytes(self._incoming.pop(snapshot_id))
        removed = self._truncate(self.start_offset)
        self._journal.clear()
        self.snapshots = {snapshot_id: data}
        self.start_offset, self.start_epoch = snapshot_id
        self.high_watermark = snapshot_id.end_offset
        self.on_truncate(
            snapshot_id.end_offset, [batch for batch in removed if batch.next_offset > snapshot_id.end_offset]
        )
        return True

    # Used by the shell

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch of the entry at `offset`; None if the log lacks it."""
        at = bisect_right(self._bases, offset) - 1
        if at < 0 or offset >= self.batches[at].next_offset:
            return None
        return self.batches[at].epoch

    def batch_at(self, offset: int) -> StoredBatch | None:
        """Return the batch that holds `offset`."""
        at = bisect_right(self._bases, offset) - 1
        if at < 0 or offset >= self.batches[at].next_offset:
            return None
        return self.batches[at]

    @property
    def durable_end_offset(self) -> int:
        """Return the end of the entries that survive a power failure."""
        end = self.end_offset
        for change in self._journal:
            if isinstance(change, _Append):
                end = min(end, change.batch.base_offset)
        return end

    def sync(self, flush_to: int) -> None:
        """Sync the entries below `flush_to`."""
        if flush_to >= self.end_offset:
            self._journal.clear()
            return
        last = -1
        for number, change in enumerate(self._journal):
            if isinstance(change, _Append) and change.batch.base_offset < flush_to:
                last = number
        del self._journal[: last + 1]

    @property
    def unsynced_changes(self) -> int:
        """Return the number of changes that a power failure may undo."""
        return len(self._journal)

    def lose_power(self, survivors: int) -> None:
        """Keep the oldest `survivors` of the unsynced changes and undo the others."""
        while len(self._journal) > survivors:
            change = self._journal.pop()
            if isinstance(change, _Append):
                self._truncate(change.batch.base_offset)
            else:
                for batch in change.removed:
                    self._put(batch)
        self._journal.clear()

    def reopen(self) -> None:
        """Open the log in a new process; a log that contradicts the latest snapshot starts there."""
        self._incoming.clear()
        snapshot = self.latest_snapshot()
        self.high_watermark = snapshot.end_offset if snapshot is not None else 0
        if snapshot is None or snapshot.end_offset <= self.start_offset:
            return
        if self.epoch_at(snapshot.end_offset - 1) != snapshot.epoch:
            self._truncate(self.start_offset)
            self._journal.clear()
            self.start_offset, self.start_epoch = snapshot
            self.snapshots = {snapshot: self.snapshots[snapshot]}

    def add_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Add a snapshot of the committed state up to `snapshot_id.end_offset`."""
        assert self.start_offset < snapshot_id.end_offset <= self.high_watermark
        self.snapshots[snapshot_id] = data

    def delete_before(self, snapshot_id: SnapshotId) -> None:
        """Delete older snapshots and the log before the snapshot `snapshot_id`."""
        for older in [each for each in self.snapshots if each < snapshot_id]:
            del self.snapshots[older]
        kept = [batch for batch in self.batches if batch.next_offset > snapshot_id.end_offset]
        assert not kept or kept[0].base_offset == snapshot_id.end_offset, (
            "a snapshot ends between two batches"
        )
        self._journal = [
            change
            for change in self._journal
            if (change.batch.next_offset - 1 if isinstance(change, _Append) else change.offset)
            >= snapshot_id.end_offset
        ]
        self.batches = kept
        self._bases = [batch.base_offset for batch in kept]
        self.start_offset, self.start_epoch = snapshot_id

    def _put(self, batch: StoredBatch) -> None:
        self.batches.append(batch)
        self._bases.append(batch.base_offset)

    def _truncate(self, offset: int) -> list[StoredBatch]:
        at = len(self._bases)
        while at and self.batches[at - 1].next_offset > offset:
            at -= 1
        removed = self.batches[at:]
        assert not removed or removed[0].base_offset >= offset, f"truncation to {offset} cuts a batch"
        del self.batches[at:]
        del self._bases[at:]
        return removed
