"""The batches that a leader appends to the metadata log: LeaderChange, voter sets and data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.cluster.quorum.control import data_batch, kraft_version_record, leader_change, voters_record
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.voter_set import KRAFT_VERSION_STATIC
from tidelog.protocol.control_batch import ControlMessage, ControlRecordType, control_batch
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, Offset


class LeaderLog:
    """Appends batches in the leader's epoch; a batch counts for the high watermark when it is durable."""

    def __init__(self, replica: Replica) -> None:
        self._config = replica.config
        self._quorum_state = replica.quorum_state
        self._membership = replica.membership
        self._history = replica.history
        self._log = replica.log
        self._log_writer = replica.log_writer

    def start_epoch(self, granting_voters: Sequence[BrokerId], now_ms: int) -> None:
        """Append LeaderChange, which fences earlier epochs; resign if the disk is full."""
        change = leader_change(self._config.id, self._membership.voters.ids, granting_voters)
        try:
            self.append_control([change, *self._missing_voter_records()])
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or self._membership.is_only_voter:
                raise
            # The disk of another voter may not be full.
            self._quorum_state.resign(now_ms)

    def append_control(self, records: Iterable[tuple[ControlRecordType, ControlMessage]]) -> Offset:
        """Append and flush a batch of control records; return the offset of its last record."""
        batch = control_batch(
            records,
            timestamp=self._config.wall_ms(),
            base_offset=self._log.end_offset,
            leader_epoch=self._quorum_state.epoch,
        )
        if self._log_writer.append(batch, self._quorum_state.epoch):
            self._quorum_state.leader_state.update_voters(self._membership.voters)
        self.flush()
        return self._log.end_offset - 1

    def append_data(self, values: Sequence[bytes]) -> tuple[Offset, Offset]:
        """Append a batch without flushing it; return the offsets of its first and last record."""
        epoch = self._quorum_state.epoch
        base_offset = self._log.end_offset
        batch = data_batch(values, base_offset=base_offset, epoch=epoch, timestamp=self._config.wall_ms())
        self._log_writer.append(batch, epoch)
        return base_offset, self._log.end_offset - 1

    def flush(self) -> None:
        """Make the leader's own log durable."""
        end_offset = self._log.end_offset
        self._quorum_state.leader_state.on_flush_started(self._log_writer.flush(), end_offset)

    def _missing_voter_records(self) -> list[tuple[ControlRecordType, ControlMessage]]:
        """Return the records of the dynamic voters if the log lacks them or this leader's entry is old."""
        if self._history.kraft_version == KRAFT_VERSION_STATIC:
            return []
        voters = self._membership.voters
        new_voters = voters
        if self._membership.own_endpoints and self._membership.is_voter:
            new_voters = voters.with_voter(self._membership.own_voter)
        offset = self._history.last_offset
        if offset is not None and offset >= 0 and new_voters == voters:
            return []
        return [kraft_version_record(self._history.kraft_version), voters_record(new_voters)]
