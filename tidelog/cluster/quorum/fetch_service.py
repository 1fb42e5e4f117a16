"""Replication by the leader: responds to fetches, and commits records that a majority has fetched.

Source: KIP-595 (Fetch), KIP-630 (snapshots), KIP-1166 (a fetch also waits for the high watermark).
"""

from __future__ import annotations

from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.leader_state import LeaderState, ParkedFetch, ReplicaPosition
from tidelog.cluster.quorum.log import EpochEnd, ReadableRaftLog, SnapshotId
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.responses import (
    SnapshotChunk,
    fetch_error_response,
    fetch_response,
    fetch_snapshot_response,
)
from tidelog.cluster.quorum.topic import only_fetched_partition, only_partition
from tidelog.cluster.quorum.voter_changes import VoterChanges
from tidelog.cluster.quorum.voter_set import ReplicaKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotRequest, RequestPartitionSnapshot


class FetchService:
    """Serves Fetch and FetchSnapshot, and advances the high watermark."""

    def __init__(self, replica: Replica, voter_changes: VoterChanges) -> None:
        self._replica = replica
        self._config = replica.config
        self._quorum_state = replica.quorum_state
        self._outbox = replica.outbox
        self._log = replica.log
        self._log_writer = replica.log_writer
        self._voter_changes = voter_changes

    # ---- Fetch

    def handle_fetch(self, received: RequestReceived, now_ms: int) -> None:
        """Respond to a fetch, or park it if there is nothing new for the replica."""
        request = received.message
        assert isinstance(request, FetchRequest)
        if not self._config.accepts_cluster_id(request.cluster_id):
            self._replica.reject(received, ErrorCode.INCONSISTENT_CLUSTER_ID)
            return
        partition: FetchPartition | None = only_fetched_partition(request.topics, "partition")
        if partition is None:
            self._replica.reject(received, ErrorCode.INVALID_REQUEST)
            return
        fetcher = _fetcher(request, partition)
        error = self._validate(request, partition, fetcher)
        if error is not ErrorCode.NONE:
            self._respond_error(received, error)
            return
        divergence = diverging_point(self._log, partition.fetch_offset, partition.last_fetched_epoch)
        if divergence is not None:
            self._respond(received, divergence)
            return
        leader = self._quorum_state.leader_state
        if fetcher.id >= 0:
            self._on_replica_fetch(leader, fetcher, partition.fetch_offset, now_ms)
        if self._quorum_state.role is not leader:
            self._respond_error(received, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self._must_respond(leader, partition) or request.max_wait_ms == 0:
            self._respond(received)
        else:
            self._park(leader, received, fetcher, now_ms)

    def _validate(self, request: FetchRequest, partition: FetchPartition, fetcher: ReplicaKey) -> ErrorCode:
        """Return the error of a fetch; NONE if this leader can serve it."""
        if (
            request.max_wait_ms < 0
            or partition.fetch_offset < 0
            or not 0 <= partition.last_fetched_epoch <= partition.current_leader_epoch
            or fetcher.id == self._config.id
        ):
            return ErrorCode.INVALID_REQUEST
        return self._quorum_state.leader_error(partition.current_leader_epoch)

    def _must_respond(self, leader: LeaderState, partition: FetchPartition) -> bool:
        """Return whether there are records, or a high watermark, that the fetching replica does not have."""
        if partition.fetch_offset < self._log.end_offset:
            return True
        return leader.high_watermark is not None and partition.high_watermark < leader.high_watermark

    def _park(self, leader: LeaderState, received: RequestReceived, fetcher: ReplicaKey, now_ms: int) -> None:
        """Park a fetch; an earlier one of the same replica is completed, because its connection is lost."""
        request = received.message
        assert isinstance(request, FetchRequest)
        earlier = leader.parked_fetches.take_fetch_of(fetcher)
        if earlier is not None:
            self._respond(earlier.request)
        if len(leader.parked_fetches) >= self._config.settings.parked_fetches_max:
            self._respond(received)
            return
        deadline_ms = now_ms + min(request.max_wait_ms, self._config.settings.max_wait_ms)
        leader.parked_fetches.add(
            ParkedFetch(received, fetcher, request.topics[0].partitions[0], deadline_ms)
        )

    def complete_parked(self, now_ms: int) -> int | None:
        """Respond to parked fetches that have expired or have data; return the next deadline, if any."""
        leader = self._quorum_state.role
        if not isinstance(leader, LeaderState):
            return None

        def is_complete(fetch: ParkedFetch) -> bool:
            return fetch.deadline_ms <= now_ms or self._must_respond(leader, fetch.partition)

        for fetch in leader.parked_fetches.take(is_complete):
            self._respond(fetch.request)
        return leader.parked_fetches.next_deadline_ms

    def _respond(self, received: RequestReceived, divergence: EpochEnd | SnapshotId | None = None) -> None:
        """Respond with the records at the fetch offset and above, if any, or with the point of divergence."""
        request = received.message
        assert isinstance(request, FetchRequest)
        records: bytes | memoryview = b""
        if divergence is None:
            max_bytes = min(max(request.max_bytes, 1), self._config.settings.fetch_max_bytes)
            records = self._log.read(request.topics[0].partitions[0].fetch_offset, max_bytes)
        response = fetch_response(
            self._quorum_state.current_leader(received),
            high_watermark=self._quorum_state.leader_state.high_watermark,
            log_start_offset=self._log.start_offset,
            records=records,
            divergence=divergence,
        )
        self._outbox.respond(received, response)

    def _respond_error(self, received: RequestReceived, error: ErrorCode) -> None:
        response = fetch_error_response(self._quorum_state.current_leader(received), error)
        self._outbox.respond(received, response)

    # ---- positions and the high watermark

    def _on_replica_fetch(
        self, leader: LeaderState, fetcher: ReplicaKey, offset: Offset, now_ms: int
    ) -> None:
        """Record the position of a replica, which has all records below `offset` durably."""
        voter = self._position_of_voter(leader, fetcher)
        position = voter or leader.positions.observer(fetcher, now_ms)
        position.on_fetch(offset, self._log.end_offset, fetcher.directory_id, now_ms)
        self._check_quorum(leader, fetcher, now_ms)
        if voter is not None:
            self.advance_high_watermark(leader, now_ms)

    def _position_of_voter(self, leader: LeaderState, fetcher: ReplicaKey) -> ReplicaPosition | None:
        """Return the position of a voter, identified by id and directory id; None for an observer."""
        position = leader.positions.voters.get(fetcher.id)
        if position is None or not self._config.is_same_replica(position.key, fetcher):
            return None
        return position

    def _check_quorum(self, leader: LeaderState, fetcher: ReplicaKey, now_ms: int) -> None:
        """Restart the check-quorum timer if a majority of the voters has fetched."""
        if self._position_of_voter(leader, fetcher) is not None:
            leader.check_quorum.on_fetch(fetcher.id, leader.positions.fetching_voters_needed, now_ms)

    def advance_high_watermark(self, leader: LeaderState, now_ms: int) -> None:
        """Commit the records that a majority of the voters has, if one of them is of this epoch."""
        rules = self._config.rules
        leader.positions.set_own_end_offset(rules.acknowledged_end(leader.flushed_to, self._log.end_offset))
        offset = leader.positions.replicated_offset
        if offset is None or offset <= (leader.high_watermark or self._log.high_watermark):
            return
        if not rules.may_commit(offset, leader.epoch_start_offset):
            return
        leader.advance_high_watermark(offset)
        self._log_writer.advance_high_watermark(offset)
        self.complete_parked(now_ms)
        self._voter_changes.on_high_watermark(leader, offset, now_ms)

    # ---- FetchSnapshot

    def handle_fetch_snapshot(self, received: RequestReceived, now_ms: int) -> None:
        """Respond with a chunk of a snapshot."""
        request = received.message
        assert isinstance(request, FetchSnapshotRequest)
        if not self._config.accepts_cluster_id(request.cluster_id):
            self._replica.reject(received, ErrorCode.INCONSISTENT_CLUSTER_ID)
            return
        partition: RequestPartitionSnapshot | None = only_partition(request.topics, "name", "partition")
        if partition is None:
            self._replica.reject(received, ErrorCode.INVALID_REQUEST)
            return
        chunk = self._read_chunk(request, partition)
        current_leader = self._quorum_state.current_leader(received)
        if isinstance(chunk, ErrorCode):
            self._outbox.respond(received, fetch_snapshot_response(current_leader, chunk))
            return
        fetcher = ReplicaKey.of(request.replica_id, partition.replica_directory_id)
        if fetcher.id != self._config.id:
            self._check_quorum(self._quorum_state.leader_state, fetcher, now_ms)
        self._outbox.respond(received, fetch_snapshot_response(current_leader, ErrorCode.NONE, chunk))

    def _read_chunk(
        self, request: FetchSnapshotRequest, partition: RequestPartitionSnapshot
    ) -> SnapshotChunk | ErrorCode:
        """Return the requested bytes of a snapshot, or the error of the request."""
        error = self._quorum_state.leader_error(partition.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return error
        snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        max_bytes = min(max(request.max_bytes, 1), self._config.settings.snapshot_chunk_max_bytes)
        chunk = None
        # The bootstrap snapshot of the formatted directory, at offset 0, is not served: the first leader
        # writes its content to the log.
        if snapshot_id.end_offset > 0:
            chunk = self._log.read_snapshot(snapshot_id, max(partition.position, 0), max_bytes)
        if chunk is None:
            return ErrorCode.SNAPSHOT_NOT_FOUND
        data, size = chunk
        if not 0 <= partition.position < size:
            return ErrorCode.POSITION_OUT_OF_RANGE
        return SnapshotChunk(snapshot_id, size, partition.position, data)


def diverging_point(log: ReadableRaftLog, offset: Offset, epoch: LeaderEpoch) -> EpochEnd | SnapshotId | None:
    """Return where a follower's log, which ends at `offset` with a record of `epoch`, diverges from `log`.

    The result is None if the follower's log is a prefix of `log`. It is the snapshot to start from if the
    follower's log ends before the start of `log`, or if it is empty and a snapshot is faster.
    """
    snapshot_id = log.latest_snapshot()
    if offset == 0 and snapshot_id is not None and snapshot_id.end_offset > 0:
        return snapshot_id
    if log.start_offset == offset == epoch == 0:
        return None
    if log.start_offset > 0 and (
        offset < log.start_offset
        or epoch < log.start_epoch
        or (offset == log.start_offset and epoch != log.start_epoch)
    ):
        assert snapshot_id is not None, f"the log starts at {log.start_offset} without a snapshot"
        return snapshot_id
    end = log.end_offset_for_epoch(epoch)
    return end if end.epoch != epoch or end.end_offset < offset else None


def _fetcher(request: FetchRequest, partition: FetchPartition) -> ReplicaKey:
    replica_id = request.replica_state.replica_id
    if replica_id < 0:
        replica_id = request.replica_id
    return ReplicaKey.of(replica_id, partition.replica_directory_id)
