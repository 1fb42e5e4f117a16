"""The port to the metadata log: what the quorum asks of whoever stores it.

All calls are synchronous and may leave what they wrote in the page cache: what has to be durable,
and when, is said by the effect `Persist`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidelog.protocol.ids import LeaderEpoch, Offset


class SnapshotId(NamedTuple):
    """Names a snapshot: it holds everything below `end_offset`; `epoch` is of the record before that."""

    end_offset: Offset
    epoch: LeaderEpoch


class EpochEnd(NamedTuple):
    """Where the records of an epoch end in a log (exclusive)."""

    epoch: LeaderEpoch
    end_offset: Offset


class RaftLog(Protocol):
    """One replica's metadata log and its snapshots.

    Invariant: start_offset <= high_watermark <= end_offset; epochs never decrease along the log.
    """

    @property
    def start_offset(self) -> Offset:
        """The first offset that is still here: 0, or the end of a snapshot that is here."""

    @property
    def start_epoch(self) -> LeaderEpoch:
        """Epoch of the record before `start_offset`, as the snapshot there says; 0 at offset 0."""

    @property
    def end_offset(self) -> Offset:
        """Where the next record goes."""

    @property
    def last_epoch(self) -> LeaderEpoch:
        """Epoch of the last record; `start_epoch` when there is none."""

    @property
    def high_watermark(self) -> Offset:
        """The highest offset up to which this replica knows the log to be committed.

        After a restart: the end of the latest snapshot, or 0.
        """

    def append(self, batches: bytes | bytearray | memoryview, epoch: LeaderEpoch) -> None:
        """Add whole batches, stamped, contiguous and starting at `end_offset`; `epoch` is of the last one.

        Errors: KafkaError KAFKA_STORAGE_ERROR when there is no room for them; the log is as before.
        """

    def truncate_to(self, offset: Offset) -> None:
        """Drop everything from `offset` on, a batch that reaches over it as a whole.

        AssertionError when that is below the high watermark. Errors: KafkaError KAFKA_STORAGE_ERROR when it
        cannot be done now; it is completed later, and nothing is appended before.
        """

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        """The largest epoch known here that is not above `epoch`, and where it ends (KIP-279).

        Known are `start_epoch`, which ends at `start_offset` when no record here is of it, and the
        epochs of the records. For an epoch below them: `EpochEnd(start_epoch, start_offset)`.
        """

    def read(self, offset: Offset, max_bytes: int) -> bytes | memoryview:
        """Whole batches from the one that holds `offset` on: at least one, none when `offset` is the end."""

    def advance_high_watermark(self, offset: Offset) -> None:
        """The log is committed up to `offset`, which is not below the present one nor above the end."""

    def latest_snapshot(self) -> SnapshotId | None:
        """The snapshot with the highest end offset that is complete."""

    def read_snapshot(
        self, snapshot_id: SnapshotId, position: int, max_bytes: int
    ) -> tuple[bytes | memoryview, int] | None:
        """Bytes of a snapshot from `position` on, and its whole size; None when there is no such snapshot.

        No bytes when `position` is at or past the end.
        """

    def append_snapshot_chunk(
        self, snapshot_id: SnapshotId, position: int, chunk: bytes | memoryview
    ) -> None:
        """Write a piece of a snapshot that is being fetched; position 0 begins anew.

        Errors: KafkaError KAFKA_STORAGE_ERROR when there is no room for it; it begins anew then.
        """

    def finish_snapshot(self, snapshot_id: SnapshotId) -> bool:
        """All pieces are there: make the snapshot durable, then begin the log anew, empty, at its end.

        Afterwards start, end and high watermark are its end offset, start and last epoch its epoch.
        False when it was damaged on its way: it is dropped, and the log is as it was.
        Errors: KafkaError KAFKA_STORAGE_ERROR when it cannot be done now; it has to be fetched again.
        """
