"""BeginQuorumEpoch and EndQuorumEpoch: a leader announces the start and the end of its epoch.

Source: KIP-595, KIP-853 (endpoints, directory ids).
"""

from __future__ import annotations

from typing import Any

from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.leader_state import LeaderState
from tidelog.cluster.quorum.leader_tracker import LeaderTracker
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.requests import begin_epoch_request, end_epoch_request
from tidelog.cluster.quorum.responses import begin_epoch_response, end_epoch_response
from tidelog.cluster.quorum.states import FollowerState, ResignedState
from tidelog.cluster.quorum.topic import only_partition
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, LeaderEpoch
from tidelog.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from tidelog.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


class EpochRequests:
    """Sends the two requests as the leader or former leader, and handles them as a voter."""

    def __init__(self, replica: Replica, leader_tracker: LeaderTracker) -> None:
        self._replica = replica
        self._config = replica.config
        self._quorum_state = replica.quorum_state
        self._membership = replica.membership
        self._connections = replica.connections
        self._outbox = replica.outbox
        self._leader_tracker = leader_tracker

    # ---- as the leader, or the former leader

    def send_begin(self, leader: LeaderState, now_ms: int) -> None:
        """Send BeginQuorumEpoch to voters that have not acknowledged the leader or do not fetch."""
        interval_ms = self._config.settings.begin_epoch_interval_ms
        leader.schedule_begin_epoch(now_ms + interval_ms)
        for voter in self._membership.voters:
            position = leader.positions.voters[voter.id]
            is_silent = position.last_fetch_ms is None or position.last_fetch_ms <= now_ms - interval_ms
            if voter.id == self._config.id or (position.has_acknowledged_leader and not is_silent):
                continue
            if self._connections.is_ready(voter.id, now_ms):
                request = begin_epoch_request(
                    self._config, voter.key, self._quorum_state.epoch, self._membership.own_endpoints
                )
                self._connections.send(voter.id, voter.endpoints, request, now_ms)

    def poll_resigned(self, resigned: ResignedState, now_ms: int) -> int:
        """Send EndQuorumEpoch until all voters acknowledge it; return when to poll again.

        If no voter was elected before the deadline, the replica moves to the next epoch.
        """
        if now_ms >= resigned.deadline_ms:
            self._quorum_state.become_unattached(self._quorum_state.epoch + 1, now_ms)
            return now_ms
        poll_at_ms = resigned.deadline_ms
        for voter in self._membership.voters:
            if resigned.is_acknowledged_by(voter.id) or voter.id == self._config.id:
                continue
            if self._connections.is_ready(voter.id, now_ms):
                request = end_epoch_request(
                    self._config,
                    self._quorum_state.epoch,
                    self._membership.own_endpoints,
                    resigned.preferred_successors,
                )
                self._connections.send(voter.id, voter.endpoints, request, now_ms)
            else:
                poll_at_ms = min(poll_at_ms, self._connections.ready_at(voter.id) or poll_at_ms)
        return poll_at_ms

    def handle_begin_response(
        self, voter_id: BrokerId, message: BeginQuorumEpochResponse, now_ms: int
    ) -> bool:
        """Record an acknowledgement; return whether the next request may be sent without a pause."""
        handled = self._handle_common_response(message, now_ms)
        leader = self._quorum_state.role
        if handled is None and isinstance(leader, LeaderState):
            position = leader.positions.voters.get(voter_id)
            if position is not None:
                position.acknowledge_leader()
            return True
        return bool(handled)

    def handle_end_response(self, voter_id: BrokerId, message: EndQuorumEpochResponse, now_ms: int) -> bool:
        """Record an acknowledgement; return whether the next request may be sent without a pause."""
        handled = self._handle_common_response(message, now_ms)
        resigned = self._quorum_state.role
        if handled is None and isinstance(resigned, ResignedState):
            resigned.acknowledge(voter_id)
            return True
        return bool(handled)

    def _handle_common_response(
        self, message: BeginQuorumEpochResponse | EndQuorumEpochResponse, now_ms: int
    ) -> bool | None:
        """Return None if the voter acknowledged the request; else whether the next request needs no pause."""
        partition = only_partition(message.topics, "topic_name", "partition_index")
        if message.error_code != ErrorCode.NONE or partition is None:
            return False
        handled = self._leader_tracker.handle_common_response(
            partition.error_code, partition, message.node_endpoints, now_ms
        )
        if handled is None and partition.error_code != ErrorCode.NONE:
            return False
        return handled

    # ---- as a voter

    def handle_begin(self, received: RequestReceived, now_ms: int) -> None:
        """Follow the elected leader that sent BeginQuorumEpoch."""
        request = received.message
        assert isinstance(request, BeginQuorumEpochRequest)
        partition = self._partition(received, request)
        if partition is None:
            return
        error = self._follow_sender(request, partition, now_ms)
        if error is ErrorCode.NONE and request.voter_id >= 0:
            addressee = ReplicaKey.of(request.voter_id, partition.voter_directory_id)
            if not self._config.is_same_replica(addressee, self._config.key):
                error = ErrorCode.INVALID_VOTER_KEY
        response = begin_epoch_response(self._quorum_state.current_leader(received), error)
        self._outbox.respond(received, response)

    def handle_end(self, received: RequestReceived, now_ms: int) -> None:
        """Start an election after the leader resigned; preferred successors start first."""
        request = received.message
        assert isinstance(request, EndQuorumEpochRequest)
        partition = self._partition(received, request)
        if partition is None:
            return
        error = self._follow_sender(request, partition, now_ms)
        follower_state = self._quorum_state.role
        if error is ErrorCode.NONE and isinstance(follower_state, FollowerState):
            follower_state.on_leader_resigned(now_ms + self._backoff_ms(partition))
        response = end_epoch_response(self._quorum_state.current_leader(received), error)
        self._outbox.respond(received, response)

    def _backoff_ms(self, partition: Any) -> int:
        preferred = [
            ReplicaKey.of(each.candidate_id, each.candidate_directory_id)
            for each in partition.preferred_candidates
        ] or [ReplicaKey(each) for each in partition.preferred_successors]
        own_positions = (
            position
            for position, each in enumerate(preferred)
            if self._config.is_same_replica(each, self._config.key)
        )
        position = next(own_positions, len(preferred))
        return successor_backoff_ms(position, len(preferred), self._config.settings.election_backoff_max_ms)

    def _partition(
        self, received: RequestReceived, request: BeginQuorumEpochRequest | EndQuorumEpochRequest
    ) -> Any | None:
        """Return the request's partition; None if the request was rejected as a whole."""
        partition = only_partition(request.topics, "topic_name", "partition_index")
        if not self._config.accepts_cluster_id(request.cluster_id):
            self._replica.reject(received, ErrorCode.INCONSISTENT_CLUSTER_ID)
            return None
        if partition is None:
            self._replica.reject(received, ErrorCode.INVALID_REQUEST)
        return partition

    def _follow_sender(
        self, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, partition: Any, now_ms: int
    ) -> ErrorCode:
        """Apply the epoch and leader in a request of the leader, or former leader; return the error."""
        epoch: LeaderEpoch = partition.leader_epoch
        leader_id: BrokerId = partition.leader_id
        if epoch < self._quorum_state.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_id < 0 or self._leader_tracker.contradicts(epoch, leader_id):
            return ErrorCode.INVALID_REQUEST
        endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.leader_endpoints)
        self._leader_tracker.maybe_transition(epoch, leader_id, endpoints, now_ms, is_from_leader=True)
        return ErrorCode.NONE


def successor_backoff_ms(position: int, count: int, backoff_max_ms: int) -> int:
    """Return the pause before the election that the successor at `position` of `count` starts.

    It is 0 for the first successor and then doubles. It is `backoff_max_ms` for all other voters.
    """
    if position == 0 and count > 0:
        return 0
    if position >= count:
        return backoff_max_ms
    return min(backoff_max_ms, (backoff_max_ms >> (count - 1)) << (position - 1))
