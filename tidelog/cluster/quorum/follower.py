"""Replication by the follower, which finds the leader, fetches, appends, truncates and loads snapshots.

Source: KIP-595 (Fetch with diverging epochs), KIP-630 (snapshots), KIP-853 (bootstrap servers,
UpdateRaftVoter), KIP-1186 (controllers that join the voters automatically).
"""

from __future__ import annotations

from typing import Final

from tidelog.cluster.quorum.elections import Elections
from tidelog.cluster.quorum.leader_tracker import LeaderTracker
from tidelog.cluster.quorum.log import EpochEnd, SnapshotId
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.requests import (
    add_voter_request,
    fetch_request,
    fetch_snapshot_request,
    remove_voter_request,
    update_voter_request,
)
from tidelog.cluster.quorum.states import FollowerState, UnattachedState
from tidelog.cluster.quorum.topic import only_fetched_partition, only_partition
from tidelog.cluster.quorum.voter_set import KRAFT_VERSION_STATIC, Endpoint
from tidelog.protocol.batch import crc_is_valid, iterate_headers
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages.fetch import FetchResponse, PartitionData
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from tidelog.protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from tidelog.protocol.schema import ApiMessage

FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap servers have no known node ids. They are numbered downwards from here, as in Kafka."""


class CommittedRecordsLost(AssertionError):
    """The leader requires a truncation of committed records; the process ends without changing the log."""


class Follower:
    """Fetches the metadata log from the leader, or from any node that may know the leader."""

    def __init__(self, replica: Replica, leader_tracker: LeaderTracker, elections: Elections) -> None:
        self._config = replica.config
        self._quorum_state = replica.quorum_state
        self._membership = replica.membership
        self._connections = replica.connections
        self._log = replica.log
        self._log_writer = replica.log_writer
        self._leader_tracker = leader_tracker
        self._elections = elections

    def poll_unattached(self, unattached: UnattachedState, now_ms: int) -> int | None:
        """Search for the leader, or start an election at the deadline; return when to poll again."""
        if not self._membership.is_electable:
            return self._fetch_from_any(now_ms)
        if now_ms >= unattached.deadline_ms:
            self._elections.start(now_ms)
            return now_ms
        poll_at_ms = self._fetch_from_any(now_ms)
        return unattached.deadline_ms if poll_at_ms is None else min(poll_at_ms, unattached.deadline_ms)

    def poll_follower(self, follower_state: FollowerState, now_ms: int) -> int:
        """Fetch; start an election if no fetch succeeded until the deadline. Return when to poll again."""
        is_electable = self._membership.is_electable
        if is_electable and now_ms >= follower_state.deadline_ms:
            self._elections.start(now_ms)
            return now_ms
        if now_ms >= follower_state.deadline_ms:
            # An observer does not wait longer for the leader's response: other nodes may know a new leader.
            # It also grants pre-votes again, because it may already be a voter for other replicas.
            self._connections.reset()
            follower_state.on_fetch_timeout(now_ms + self._config.settings.fetch_timeout_ms)
        poll_at_ms: int | None = None
        if not is_electable and follower_state.has_leader_failed:
            poll_at_ms = self._fetch_from_any(now_ms, excluded=follower_state.leader_id)
        elif self._connections.is_ready(follower_state.leader_id, now_ms):
            if now_ms < follower_state.update_voter_at_ms or not self._request_voter_change(
                follower_state, now_ms
            ):
                self._fetch_from_leader(follower_state, now_ms)
        else:
            poll_at_ms = self._connections.ready_at(follower_state.leader_id)
        return (
            follower_state.deadline_ms if poll_at_ms is None else min(poll_at_ms, follower_state.deadline_ms)
        )

    def on_request_failed(self, node_id: BrokerId) -> None:
        """Handle a failed request; an observer then sends its next request to another node."""
        follower_state = self._quorum_state.role
        if isinstance(follower_state, FollowerState):
            follower_state.on_request_failed(node_id)

    # ---- requests

    def _fetch_from_leader(self, follower_state: FollowerState, now_ms: int) -> None:
        snapshot = follower_state.snapshot
        if snapshot is None:
            self._fetch(follower_state.leader_id, follower_state.endpoints, now_ms)
            return
        request = fetch_snapshot_request(self._config, self._quorum_state.epoch, snapshot)
        self._connections.send(follower_state.leader_id, follower_state.endpoints, request, now_ms)

    def _fetch(self, node_id: BrokerId, endpoints: tuple[Endpoint, ...], now_ms: int) -> None:
        # A fetch at an offset acknowledges all records before it, so these must be durable.
        self._log_writer.flush_recovered()
        request = fetch_request(self._config, self._quorum_state.epoch, self._log)
        wait_ms = self._config.settings.fetch_max_wait_ms
        self._connections.send(node_id, endpoints, request, now_ms, wait_ms=wait_ms)

    def _fetch_from_any(self, now_ms: int, *, excluded: BrokerId | None = None) -> int | None:
        """Fetch from a random voter or bootstrap server to find the leader; return when to poll again.

        The node `excluded` is used only if there is no other.
        """
        connections = self._connections
        if connections.has_pending:
            return None
        nodes = [(each.id, each.endpoints) for each in self._membership.voters if each.id != self._config.id]
        own = {(endpoint.host, endpoint.port) for endpoint in self._membership.own_endpoints}
        nodes += [
            (FIRST_BOOTSTRAP_ID - number, (endpoint,))
            for number, endpoint in enumerate(self._config.bootstrap_servers)
            if (endpoint.host, endpoint.port) not in own
        ]
        nodes = [node for node in nodes if node[0] != excluded] or nodes
        ready = [node for node in nodes if connections.is_ready(node[0], now_ms)]
        if ready:
            node_id, endpoints = ready[self._config.random_below(len(ready))]
            self._fetch(node_id, endpoints, now_ms)
            return None
        return min((connections.ready_at(node[0]) or now_ms + 1 for node in nodes), default=None)

    def _request_voter_change(self, follower_state: FollowerState, now_ms: int) -> bool:
        """Request a change of the voter set if its entry of this replica is missing or outdated.

        Return whether a request was sent. This is checked every `update_voter_interval_ms`.
        """
        follower_state.schedule_voter_update(now_ms + self._config.settings.update_voter_interval_ms)
        if not self._membership.own_endpoints:
            return False
        request = self._voter_change(follower_state)
        if request is None:
            return False
        self._connections.send(follower_state.leader_id, follower_state.endpoints, request, now_ms)
        return True

    def _voter_change(self, follower_state: FollowerState) -> ApiMessage | None:
        own = self._membership.own_voter
        is_static = self._membership.kraft_version == KRAFT_VERSION_STATIC
        known = self._membership.voters.by_id.get(self._config.id)
        if known is not None and self._membership.is_voter:
            # The leader stores the reports of static voters for the upgrade to dynamic voters (KIP-853).
            if known == own or (is_static and follower_state.has_reported_voter):
                return None
            follower_state.on_voter_reported()
            return update_voter_request(self._config, self._quorum_state.epoch, own)
        if is_static or not self._config.settings.auto_join or not follower_state.has_fetched:
            return None
        if known is not None:
            return remove_voter_request(self._config, known.key)
        return add_voter_request(self._config, own)

    # ---- responses

    def handle_fetch_response(self, message: FetchResponse, now_ms: int) -> bool:
        """Apply the response; return whether the next request may be sent without a pause."""
        partition: PartitionData | None = only_fetched_partition(message.responses, "partition_index")
        if message.error_code != ErrorCode.NONE or partition is None:
            return False
        leader = partition.current_leader
        handled = self._leader_tracker.handle_common_response(
            partition.error_code, leader, message.node_endpoints, now_ms
        )
        if handled is not None:
            return handled
        follower_state = self._quorum_state.role
        if partition.error_code != ErrorCode.NONE or not isinstance(follower_state, FollowerState):
            return False
        if leader.leader_id != follower_state.leader_id or not self._apply(follower_state, partition):
            return False
        self._on_fetched(follower_state, now_ms)
        return True

    def _apply(self, follower_state: FollowerState, partition: PartitionData) -> bool:
        """Truncate to a diverging epoch, start a snapshot fetch, or append records; return the success."""
        if partition.diverging_epoch.epoch >= 0:
            end = EpochEnd(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
            return self._truncate(end)
        if partition.snapshot_id.epoch >= 0 or partition.snapshot_id.end_offset >= 0:
            snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            if snapshot_id.epoch < 0 or snapshot_id.end_offset <= self._log.high_watermark:
                return False
            follower_state.start_snapshot(snapshot_id)
            return True
        return self._append(partition)

    def _on_fetched(self, follower_state: FollowerState, now_ms: int) -> None:
        follower_state.on_fetched(now_ms + self._config.settings.fetch_timeout_ms)

    def _truncate(self, leader_end: EpochEnd) -> bool:
        """Truncate to the largest offset known to be shared with the leader (KIP-279).

        Return False if the log cannot be truncated now; the next fetch has the same result.
        """
        own_end = self._log.end_offset_for_epoch(leader_end.epoch)
        offset = own_end.end_offset
        if own_end.epoch == leader_end.epoch:
            offset = min(offset, leader_end.end_offset)
        high_watermark = self._log.high_watermark
        if not self._config.rules.may_truncate_to(offset, high_watermark):
            raise CommittedRecordsLost(
                f"leader {self._quorum_state.leader_id} of epoch {self._quorum_state.epoch} requires "
                f"truncation to offset {offset} (its epoch {leader_end.epoch} ends at "
                f"{leader_end.end_offset}), which is below the high watermark {high_watermark}"
            )
        try:
            self._log_writer.truncate(offset)
        except KafkaError as error:
            return _raise_unless_storage_error(error)
        return True

    def _append(self, partition: PartitionData) -> bool:
        """Append the records and advance the high watermark; return False if the records are unusable."""
        if partition.records and not self._append_records(partition.records):
            return False
        high_watermark = min(partition.high_watermark, self._log.end_offset)
        if high_watermark > self._log.high_watermark:
            self._log_writer.advance_high_watermark(high_watermark)
        return True

    def _append_records(self, records: bytes | memoryview) -> bool:
        log = self._log
        last_epoch = last_epoch_if_valid(records, log.end_offset, log.last_epoch, self._quorum_state.epoch)
        if last_epoch is None:
            return False
        try:
            self._log_writer.append(records, last_epoch)
        except KafkaError as error:
            return _raise_unless_storage_error(error)
        self._log_writer.flush()
        return True

    def handle_snapshot_response(self, message: FetchSnapshotResponse, now_ms: int) -> bool:
        """Write a chunk of a snapshot; return whether the next request may be sent without a pause."""
        partition = only_partition(message.topics, "name", "index")
        if message.error_code != ErrorCode.NONE or partition is None:
            return False
        handled = self._leader_tracker.handle_common_response(
            partition.error_code, partition.current_leader, message.node_endpoints, now_ms
        )
        if handled is not None:
            return handled
        follower_state = self._quorum_state.role
        if not isinstance(follower_state, FollowerState) or follower_state.snapshot is None:
            return False
        snapshot = follower_state.snapshot
        snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        is_next = snapshot_id == snapshot.snapshot_id and partition.position == snapshot.position
        chunk = partition.unaligned_records
        if partition.error_code != ErrorCode.NONE or not is_next or not chunk:
            # The leader may have deleted the snapshot. The response to the next fetch contains a new id.
            follower_state.end_snapshot()
            return False
        try:
            self._log_writer.append_snapshot_chunk(snapshot_id, snapshot.position, chunk)
        except KafkaError as error:
            follower_state.end_snapshot()
            return _raise_unless_storage_error(error)
        if follower_state.advance_snapshot(len(chunk)).position >= partition.size:
            follower_state.end_snapshot()
            if not self._load_snapshot(snapshot_id):
                return False
        self._on_fetched(follower_state, now_ms)
        return True

    def _load_snapshot(self, snapshot_id: SnapshotId) -> bool:
        try:
            return self._log_writer.load_snapshot(snapshot_id)
        except KafkaError as error:
            return _raise_unless_storage_error(error)

    def handle_update_voter_response(self, message: UpdateRaftVoterResponse, now_ms: int) -> bool:
        """Apply the reported leader; return whether the next request may be sent without a pause."""
        leader = message.current_leader
        endpoints = self._leader_tracker.leader_endpoints(leader.leader_id, ())
        if leader.leader_id >= 0 and leader.host and not endpoints:
            endpoints = (Endpoint(self._config.settings.listener_name, leader.host, leader.port),)
        handled = self._leader_tracker.handle_leader(
            message.error_code, leader.leader_id, leader.leader_epoch, endpoints, now_ms
        )
        return message.error_code == ErrorCode.NONE if handled is None else handled


def last_epoch_if_valid(
    records: bytes | memoryview, offset: Offset, last_epoch: LeaderEpoch, epoch: LeaderEpoch
) -> LeaderEpoch | None:
    """Return the epoch of the last batch in `records`; None if they cannot be appended.

    All batches must be whole, continue a log that ends at `offset` with `last_epoch`, and have epochs that
    do not decrease and are not above `epoch`.
    """
    try:
        for position, header in iterate_headers(records):
            if header.base_offset != offset or not crc_is_valid(records, position, header):
                return None
            if not last_epoch <= header.partition_leader_epoch <= epoch:
                return None
            offset, last_epoch = header.next_offset, header.partition_leader_epoch
    except DecodeError:
        return None
    return last_epoch


def _raise_unless_storage_error(error: KafkaError) -> bool:
    """Return False if `error` is KAFKA_STORAGE_ERROR, after which the fetch is repeated; else raise it."""
    if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
        raise error
    return False
