"""The epochs and leaders that requests and responses of other replicas report.

Source: KIP-595; KafkaRaftClient of Apache Kafka for the meaning of errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.states import State
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, LeaderEpoch

_LEADER_CHANGED_ERRORS = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NOT_SERVED_ERRORS = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INVALID_VOTER_KEY, ErrorCode.INVALID_REQUEST)


class LeaderTracker:
    """Moves a replica to the epochs and leaders that other replicas report."""

    def __init__(self, replica: Replica) -> None:
        self._config = replica.config
        self._quorum_state = replica.quorum_state
        self._epoch_and_vote = replica.epoch_and_vote
        self._membership = replica.membership

    def leader_endpoints(self, leader_id: BrokerId, node_endpoints: Sequence[Any]) -> tuple[Endpoint, ...]:
        """Return the leader's endpoints in a response, or else those in the voter set."""
        reported = tuple(
            Endpoint(self._config.settings.listener_name, node.host, node.port)
            for node in node_endpoints
            if node.node_id == leader_id
        )
        return reported or self._membership.endpoints_of(leader_id)

    def maybe_transition(
        self,
        epoch: LeaderEpoch,
        leader_id: BrokerId,
        endpoints: tuple[Endpoint, ...],
        now_ms: int,
        *,
        is_from_leader: bool = False,
    ) -> bool:
        """Apply a reported epoch and leader (-1 if unknown); return whether the state has changed.

        A report is ignored if it contradicts the known leader of the current epoch.
        """
        state = self._quorum_state
        endpoints = endpoints or self._membership.endpoints_of(leader_id)
        is_known = leader_id >= 0 and leader_id != self._config.id and bool(endpoints)
        if epoch > state.epoch:
            if is_known:
                state.become_follower(epoch, leader_id, endpoints, now_ms)
            else:
                state.become_unattached(epoch, now_ms)
            return True
        if epoch < state.epoch or not is_known:
            return False
        if state.state in (State.LEADER, State.RESIGNED, State.FOLLOWER):
            return False
        known_leader_id = self._epoch_and_vote.leader_id
        if known_leader_id is not None and known_leader_id != leader_id:
            return False
        if state.state is State.PROSPECTIVE and known_leader_id == leader_id and not is_from_leader:
            # This replica no longer follows the leader. Others may not have detected its failure yet.
            return False
        state.become_follower(epoch, leader_id, endpoints, now_ms)
        return True

    def contradicts(self, epoch: LeaderEpoch, leader_id: BrokerId) -> bool:
        """Return whether this replica knows that `leader_id` is not the leader of `epoch`."""
        if epoch != self._quorum_state.epoch:
            return False
        return leader_id == self._config.id or self._epoch_and_vote.leader_id not in (None, leader_id)

    def handle_common_response(
        self, error: int, leader: Any, node_endpoints: Sequence[Any], now_ms: int
    ) -> bool | None:
        """Apply error and leader of a response; `leader` has the fields `leader_id` and `leader_epoch`.

        Return None if the caller must handle the rest of the response. Otherwise return whether the next
        request may be sent without a pause.
        """
        endpoints = self.leader_endpoints(leader.leader_id, node_endpoints)
        return self.handle_leader(error, leader.leader_id, leader.leader_epoch, endpoints, now_ms)

    def handle_leader(
        self,
        error: int,
        leader_id: BrokerId,
        epoch: LeaderEpoch,
        endpoints: tuple[Endpoint, ...],
        now_ms: int,
    ) -> bool | None:
        """Apply error and leader of a response; the result is that of `handle_common_response`."""
        known_epoch = self._quorum_state.epoch
        if epoch < known_epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
            return False
        has_changed = self.maybe_transition(epoch, leader_id, endpoints, now_ms)
        if epoch > known_epoch or error in _LEADER_CHANGED_ERRORS:
            return has_changed
        if has_changed:
            return None if error == ErrorCode.NONE else True
        return False if error in _NOT_SERVED_ERRORS else None
