"""Elections: requests for votes and pre-votes, and the votes of this replica.

Source: KIP-595 (Vote), KIP-996 (pre-vote), KIP-853 (voters by directory id).
"""

from __future__ import annotations

from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.leader_log import LeaderLog
from tidelog.cluster.quorum.leader_tracker import LeaderTracker
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.requests import vote_request
from tidelog.cluster.quorum.responses import vote_response
from tidelog.cluster.quorum.states import NomineeState, State
from tidelog.cluster.quorum.topic import only_partition
from tidelog.cluster.quorum.voter_set import ReplicaKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.vote import RequestPartitionData, VoteRequest, VoteResponse


class Elections:
    """Decides when this replica becomes a candidate or the leader, or votes for another candidate."""

    def __init__(self, replica: Replica, leader_tracker: LeaderTracker, leader_log: LeaderLog) -> None:
        self._replica = replica
        self._config = replica.config
        self._quorum_state = replica.quorum_state
        self._epoch_and_vote = replica.epoch_and_vote
        self._membership = replica.membership
        self._connections = replica.connections
        self._log = replica.log
        self._leader_tracker = leader_tracker
        self._leader_log = leader_log

    # ---- as a candidate

    def start(self, now_ms: int) -> None:
        """Start an election after a timeout; the only voter elects itself."""
        if self._membership.is_only_voter:
            self._quorum_state.become_candidate(now_ms)
            self._become_leader(now_ms)
        else:
            self._config.rules.begin_election(self._quorum_state, now_ms)

    def poll(self, nominee: NomineeState, now_ms: int) -> int:
        """Request votes of voters that have not responded; return when to poll again."""
        if not self._membership.is_electable:
            self._quorum_state.become_unattached(self._quorum_state.epoch, now_ms)
            return now_ms
        if now_ms >= nominee.deadline_ms:
            self._on_not_elected(now_ms)
            return now_ms
        poll_at_ms = nominee.deadline_ms
        if not nominee.is_rejected:
            for voter_id in nominee.unrecorded_voters:
                if self._connections.is_ready(voter_id, now_ms):
                    self._request_vote(nominee, voter_id, now_ms)
                else:
                    poll_at_ms = min(poll_at_ms, self._connections.ready_at(voter_id) or poll_at_ms)
        return poll_at_ms

    def _request_vote(self, nominee: NomineeState, voter_id: BrokerId, now_ms: int) -> None:
        voter = nominee.voters.by_id[voter_id]
        request = vote_request(
            self._config,
            voter.key,
            self._quorum_state.epoch,
            self._log,
            pre_vote=self._quorum_state.state is State.PROSPECTIVE,
        )
        self._connections.send(voter_id, voter.endpoints, request, now_ms)

    def handle_response(self, voter_id: BrokerId, message: VoteResponse, now_ms: int) -> bool:
        """Count a vote; return whether the next request to that voter may be sent without a pause."""
        nominee = self._quorum_state.role
        if (
            message.error_code == ErrorCode.UNSUPPORTED_VERSION
            and self._quorum_state.state is State.PROSPECTIVE
        ):
            # An older voter does not support pre-votes (KIP-996); it only votes in the election itself.
            assert isinstance(nominee, NomineeState)
            nominee.record_vote(voter_id, is_granted=True)
            self._on_vote_recorded(nominee, now_ms)
            return True
        partition = only_partition(message.topics, "topic_name", "partition_index")
        if message.error_code != ErrorCode.NONE or partition is None:
            return False
        handled = self._leader_tracker.handle_common_response(
            partition.error_code, partition, message.node_endpoints, now_ms
        )
        if handled is not None:
            return handled
        if partition.error_code != ErrorCode.NONE or not isinstance(nominee, NomineeState):
            return False
        if self._quorum_state.role is nominee:
            nominee.record_vote(voter_id, is_granted=partition.vote_granted)
            self._on_vote_recorded(nominee, now_ms)
        return True

    def _on_vote_recorded(self, nominee: NomineeState, now_ms: int) -> None:
        is_prospective = self._quorum_state.state is State.PROSPECTIVE
        if nominee.is_elected:
            if is_prospective:
                self._quorum_state.become_candidate(now_ms)
            else:
                self._become_leader(now_ms)
        elif nominee.is_rejected:
            if is_prospective:
                self._on_not_elected(now_ms)
            else:
                # A random pause, so that candidates that split the vote do not split it again.
                backoff_max_ms = self._config.settings.election_backoff_max_ms
                nominee.back_off_until(now_ms + 1 + self._config.random_below(backoff_max_ms))

    def _become_leader(self, now_ms: int) -> None:
        nominee = self._quorum_state.role
        assert isinstance(nominee, NomineeState)
        self._quorum_state.become_leader(self._log.end_offset, now_ms)
        self._leader_log.start_epoch(nominee.granting_voters, now_ms)

    def _on_not_elected(self, now_ms: int) -> None:
        """Start another election as a candidate; as PROSPECTIVE, return to the leader or wait."""
        state = self._quorum_state
        if state.state is State.CANDIDATE:
            self.start(now_ms)
            return
        leader_id = self._epoch_and_vote.leader_id
        endpoints = () if leader_id is None else self._membership.endpoints_of(leader_id)
        if leader_id is not None and leader_id != self._config.id and endpoints:
            state.become_follower(state.epoch, leader_id, endpoints, now_ms)
        else:
            state.become_unattached(state.epoch, now_ms, restart_timer=True)

    # ---- as a voter

    def handle_request(self, received: RequestReceived, now_ms: int) -> None:
        """Respond to Vote; grant or reject the vote."""
        request = received.message
        assert isinstance(request, VoteRequest)
        partition: RequestPartitionData | None = only_partition(
            request.topics, "topic_name", "partition_index"
        )
        if not self._config.accepts_cluster_id(request.cluster_id):
            self._replica.reject(received, ErrorCode.INCONSISTENT_CLUSTER_ID)
            return
        if partition is None:
            self._replica.reject(received, ErrorCode.INVALID_REQUEST)
            return
        error = self._validate(partition)
        is_granted = False
        if error is ErrorCode.NONE:
            if partition.replica_epoch > self._quorum_state.epoch:
                self._quorum_state.become_unattached(partition.replica_epoch, now_ms)
            addressee = ReplicaKey.of(request.voter_id, partition.voter_directory_id)
            if request.voter_id >= 0 and not self._is_addressee(addressee):
                error = ErrorCode.INVALID_VOTER_KEY
            else:
                is_granted = self._grant(partition, now_ms)
        response = vote_response(self._quorum_state.current_leader(received), error, granted=is_granted)
        self._replica.outbox.respond(received, response)

    def _validate(self, partition: RequestPartitionData) -> ErrorCode:
        """Return the error of a request; NONE if it is valid."""
        last_epoch_max = partition.replica_epoch if partition.pre_vote else partition.replica_epoch - 1
        if partition.last_offset < 0 or not 0 <= partition.last_offset_epoch <= last_epoch_max:
            return ErrorCode.INVALID_REQUEST
        if partition.replica_epoch < self._quorum_state.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if partition.replica_id < 0 or partition.replica_id == self._config.id:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _is_addressee(self, addressee: ReplicaKey) -> bool:
        """Return whether `addressee` is this replica; the same node with another directory is not."""
        if addressee.directory_id is None:
            return addressee.id == self._config.id
        return self._config.is_same_replica(addressee, self._config.key)

    def _grant(self, partition: RequestPartitionData, now_ms: int) -> bool:
        """Return whether the vote or pre-vote is granted; record a granted vote."""
        rules, state = self._config.rules, self._quorum_state
        candidate = ReplicaKey.of(partition.replica_id, partition.replica_directory_id)
        own_end = (self._log.last_epoch, self._log.end_offset)
        if not rules.is_log_up_to_date((partition.last_offset_epoch, partition.last_offset), own_end):
            return False
        if partition.pre_vote:
            return rules.grants_pre_vote(state.state, state.role)
        if state.state in (State.LEADER, State.FOLLOWER, State.RESIGNED):
            return False
        if self._epoch_and_vote.leader_id is not None:
            return False
        vote = self._epoch_and_vote.vote
        if vote is not None and self._config.is_same_replica(vote, candidate):
            return True
        if not rules.has_not_voted(vote, state.state):
            return False
        state.vote_for(candidate, now_ms)
        return True
