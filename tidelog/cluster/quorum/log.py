"""The port to the metadata log, which the quorum requires from the log's storage.

All calls are synchronous and may leave written data in the page cache. The effect `Persist` states which
data must be durable, and when.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidelog.protocol.ids import LeaderEpoch, Offset


class SnapshotId(NamedTuple):
    """The id of a snapshot of all records below `end_offset`; `epoch` is the last record's epoch."""

    end_offset: Offset
    epoch: LeaderEpoch


class EpochEnd(NamedTuple):
    """An epoch and the end offset (exclusive) of its records in a log."""

    epoch: LeaderEpoch
    end_offset: Offset


class ReadableRaftLog(Protocol):
    """Read access to one replica's metadata log and its snapshots.

    Invariant: start_offset <= high_watermark <= end_offset; epochs never decrease along the log.
    """

    @property
    def start_offset(self) -> Offset:
        """The first offset in the log: 0, or the end of a stored snapshot."""

    @property
    def start_epoch(self) -> LeaderEpoch:
        """The epoch of the record before `start_offset`, from the snapshot there; 0 at offset 0."""

    @property
    def end_offset(self) -> Offset:
        """The offset of the next record."""

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last record; `start_epoch` if the log is empty."""

    @property
    def high_watermark(self) -> Offset:
        """The highest offset up to which this replica knows the log to be committed.

        After a restart it is the end of the latest snapshot, or 0.
        """

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        """Return the largest known epoch that is not above `epoch`, and its end offset (KIP-279).

        The known epochs are those of the records, and `start_epoch`, which ends at `start_offset` if no
        record has it. For an epoch below them the result is `EpochEnd(start_epoch, start_offset)`.
        """

    def read(self, offset: Offset, max_bytes: int) -> bytes | memoryview:
        """Return whole batches from the one that contains `offset`: at least one, none at the log's end."""

    def latest_snapshot(self) -> SnapshotId | None:
        """Return the complete snapshot with the highest end offset; None if there is none."""

    def read_snapshot(
        self, snapshot_id: SnapshotId, position: int, max_bytes: int
    ) -> tuple[bytes | memoryview, int] | None:
        """Return bytes of a snapshot from `position`, and its total size; None if there is no such snapshot.

        The bytes are empty if `position` is at or past the end.
        """


class RaftLog(ReadableRaftLog, Protocol):
    """One replica's metadata log and its snapshots."""

    def append(self, batches: bytes | bytearray | memoryview, epoch: LeaderEpoch) -> None:
        """Append whole batches that start at `end_offset` and are contiguous; `epoch` is of the last one.

        Errors: KafkaError KAFKA_STORAGE_ERROR if the disk is full; the log is then unchanged.
        """

    def truncate_to(self, offset: Offset) -> None:
        """Remove all records at `offset` and above; a batch that contains `offset` is removed as a whole.

        Errors: AssertionError if `offset` is below the high watermark. KafkaError KAFKA_STORAGE_ERROR if
        the log cannot be truncated now; the truncation is completed before the next append.
        """

    def advance_high_watermark(self, offset: Offset) -> None:
        """Mark the log as committed up to `offset`, between the current high watermark and the end."""

    def append_snapshot_chunk(
        self, snapshot_id: SnapshotId, position: int, chunk: bytes | memoryview
    ) -> None:
        """Write a chunk of a fetched snapshot; position 0 discards chunks written before.

        Errors: KafkaError KAFKA_STORAGE_ERROR if the disk is full; the snapshot must be fetched again.
        """

    def finish_snapshot(self, snapshot_id: SnapshotId) -> bool:
        """Make a completely fetched snapshot durable and restart the log, empty, at its end.

        Afterwards start, end and high watermark are its end offset, and start and last epoch are its epoch.
        Return False if the snapshot is damaged; it is deleted, and the log is unchanged.
        Errors: KafkaError KAFKA_STORAGE_ERROR if this is not possible now; it must be fetched again.
        """
