"""All writes to a replica's log, and the voter sets in the written records."""

from __future__ import annotations

from tidelog.cluster.quorum.effects import HighWatermark, SnapshotLoaded
from tidelog.cluster.quorum.log import RaftLog, SnapshotId
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.rules import QuorumRules
from tidelog.cluster.quorum.voter_history import VoterHistory
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset


class LogWriter:
    """The only writer of a replica's log and of its voter history; keeps the two consistent."""

    def __init__(self, log: RaftLog, history: VoterHistory, outbox: Outbox, rules: QuorumRules) -> None:
        self._log = log
        self._history = history
        self._outbox = outbox
        self._rules = rules
        self._has_flushed = False
        history.load(log)

    def append(self, batches: bytes | bytearray | memoryview, epoch: LeaderEpoch) -> bool:
        """Append whole batches, the last of which is of `epoch`; return whether the voter set has changed.

        Errors: KafkaError KAFKA_STORAGE_ERROR if the disk is full; the log is then unchanged.
        """
        base_offset = self._log.end_offset
        self._log.append(batches, epoch)
        return self._history.read(batches, base_offset)

    def flush(self) -> int:
        """Make the log durable up to its end; return the ticket of the `Persist`."""
        self._has_flushed = True
        return self._rules.persist_log(self._outbox, self._log.end_offset)

    def flush_recovered(self) -> None:
        """Flush the log before the first fetch, because the recovered log may not be durable."""
        if not self._has_flushed:
            self.flush()

    def truncate(self, offset: Offset) -> None:
        """Remove all records at `offset` and above, and the voter sets in them.

        Errors: KafkaError KAFKA_STORAGE_ERROR if the log cannot be truncated now.
        """
        try:
            self._log.truncate_to(offset)
        except KafkaError:
            # The truncation is completed later. Voter sets in the removed part no longer apply.
            self._history.truncate(offset)
            raise
        self._history.truncate(self._log.end_offset)

    def advance_high_watermark(self, offset: Offset) -> None:
        """Mark the log as committed up to `offset`."""
        self._log.advance_high_watermark(offset)
        self._history.trim(self._log.start_offset)
        self._outbox.add(HighWatermark(offset))

    def append_snapshot_chunk(
        self, snapshot_id: SnapshotId, position: int, chunk: bytes | memoryview
    ) -> None:
        """Write a chunk of a fetched snapshot.

        Errors: KafkaError KAFKA_STORAGE_ERROR if the disk is full; the snapshot must be fetched again.
        """
        self._log.append_snapshot_chunk(snapshot_id, position, chunk)

    def load_snapshot(self, snapshot_id: SnapshotId) -> bool:
        """Replace the log by a fetched snapshot; return False if the snapshot is damaged.

        Errors: KafkaError KAFKA_STORAGE_ERROR if this is not possible now.
        """
        if not self._log.finish_snapshot(snapshot_id):
            return False
        self._history.load(self._log)
        self._outbox.add(SnapshotLoaded(snapshot_id))
        self._outbox.add(HighWatermark(self._log.high_watermark))
        return True
