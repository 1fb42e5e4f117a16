"""The epoch, state and role of a replica, and the transitions between states.

The handlers decide when a transition happens; this object performs it. Each transition makes a changed
epoch or vote durable, discards pending requests of the former state, and reports a changed leader.

Source: KIP-595; QuorumState of Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from tidelog.cluster.quorum.config import ReplicaConfig
from tidelog.cluster.quorum.connections import Connections
from tidelog.cluster.quorum.effects import LeaderChanged
from tidelog.cluster.quorum.epoch_and_vote import EpochAndVote
from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.leader_state import AddingVoter, LeaderState, VoterChange
from tidelog.cluster.quorum.membership import Membership
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.responses import CurrentLeader, LeaderAndEpoch, fetch_error_response
from tidelog.cluster.quorum.states import (
    TRANSITIONS,
    FollowerState,
    NomineeState,
    ResignedState,
    Role,
    State,
    UnattachedState,
)
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterResponse
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse

FIRST_ELECTION_MS: Final = 100


class QuorumState:
    """Performs the transitions of `states.TRANSITIONS`; the only writer of state and role.

    Invariant: `role` is an instance of the role class of `state`.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        epoch_and_vote: EpochAndVote,
        membership: Membership,
        outbox: Outbox,
        connections: Connections,
        now_ms: int,
    ) -> None:
        self._config = config
        self._epoch_and_vote = epoch_and_vote
        self._membership = membership
        self._outbox = outbox
        self._connections = connections
        self._last_announcement: tuple[LeaderEpoch, BrokerId | None] = (-1, None)
        self._state, self._role = self._initial_state(now_ms)
        self._announce()

    @property
    def state(self) -> State:
        """The current state."""
        return self._state

    @property
    def role(self) -> Role:
        """The data of the current state."""
        return self._role

    @property
    def epoch(self) -> LeaderEpoch:
        """The highest epoch that this replica knows."""
        return self._epoch_and_vote.epoch

    @property
    def leader_id(self) -> BrokerId | None:
        """The leader of the epoch; None if it is unknown, or if it was this replica, which has resigned."""
        leader_id = self._epoch_and_vote.leader_id
        return None if leader_id == self._config.id and self._state is not State.LEADER else leader_id

    @property
    def leader_state(self) -> LeaderState:
        """The role of a replica that is known to be the leader."""
        role = self._role
        assert isinstance(role, LeaderState)
        return role

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The epoch, and the leader and its endpoints if they are known."""
        leader_id = self.leader_id
        if leader_id is None:
            endpoints: tuple[Endpoint, ...] = ()
        elif isinstance(self._role, FollowerState):
            endpoints = self._role.endpoints
        elif leader_id == self._config.id:
            endpoints = self._membership.own_endpoints
        else:
            endpoints = self._membership.endpoints_of(leader_id)
        return LeaderAndEpoch(self.epoch, leader_id, endpoints)

    def current_leader(self, request: RequestReceived) -> CurrentLeader:
        """Return the leader as the response to `request` reports it."""
        return self.leader_and_epoch.for_request(request, self._config.settings.listener_name)

    def leader_error(self, epoch: LeaderEpoch) -> ErrorCode:
        """Return the error of a request to the leader of `epoch`; NONE if this replica is that leader."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self._state is not State.LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    # ---- transitions

    def become_unattached(self, epoch: LeaderEpoch, now_ms: int, *, restart_timer: bool = False) -> None:
        """Move to an epoch without known leader; the election timer continues unless `restart_timer`."""
        role = self._role
        if restart_timer or isinstance(role, LeaderState | ResignedState):
            deadline_ms = self._election_deadline_ms(now_ms)
        else:
            deadline_ms = max(role.deadline_ms, now_ms)
        if epoch > self.epoch:
            self._epoch_and_vote.start_epoch(epoch)
        self._transition(self._unattached_or_voted, UnattachedState(deadline_ms))

    def vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Vote for another replica in the current epoch."""
        self._epoch_and_vote.vote_for(candidate)
        self._transition(State.VOTED, UnattachedState(self._election_deadline_ms(now_ms)))

    def become_prospective(self, now_ms: int) -> None:
        """Request pre-votes in the current epoch."""
        self._transition(State.PROSPECTIVE, self._nominee(now_ms))

    def become_candidate(self, now_ms: int) -> None:
        """Move to the next epoch, vote for itself and request votes."""
        self._epoch_and_vote.start_candidacy(self._config.key)
        self._transition(State.CANDIDATE, self._nominee(now_ms))

    def become_leader(self, log_end_offset: Offset, now_ms: int) -> None:
        """Move to LEADER after an election; the records of its epoch start at `log_end_offset`."""
        assert isinstance(self._role, NomineeState) and self._role.is_elected
        self._epoch_and_vote.set_leader(self._config.id)
        leader = LeaderState(
            self._config.id,
            self._membership.voters,
            epoch_start_offset=log_end_offset,
            settings=self._config.settings,
            now_ms=now_ms,
        )
        self._transition(State.LEADER, leader)

    def become_follower(
        self, epoch: LeaderEpoch, leader_id: BrokerId, endpoints: tuple[Endpoint, ...], now_ms: int
    ) -> None:
        """Follow the leader of `epoch`, which is not below the current epoch."""
        assert leader_id != self._config.id
        if epoch > self.epoch:
            self._epoch_and_vote.start_epoch(epoch, leader_id)
        elif self._epoch_and_vote.leader_id != leader_id:
            self._epoch_and_vote.set_leader(leader_id)
        self._transition(State.FOLLOWER, self._follower(leader_id, endpoints, now_ms))

    def resign(self, now_ms: int) -> None:
        """End the leadership; the epoch does not change until the other voters elect a leader."""
        preferred = self.leader_state.positions.successors
        self._transition(State.RESIGNED, ResignedState(preferred, self._election_deadline_ms(now_ms)))

    def end_voter_change(self, error: ErrorCode, message: str | None = None) -> None:
        """End the pending change of the voter set and respond to its request."""
        leader = self.leader_state
        change = leader.change
        assert change is not None
        leader.end_change()
        self._respond_to_change(change, error, message)

    # ---- private

    def _initial_state(self, now_ms: int) -> tuple[State, Role]:
        """Return the state in which a process starts, from its quorum record."""
        leader_id = self._epoch_and_vote.leader_id
        if self._membership.is_only_voter:
            return State.UNATTACHED, UnattachedState(now_ms)
        if leader_id == self._config.id and self._membership.is_electable:
            # It may have lost unflushed records, so it does not become leader of this epoch again.
            preferred = tuple(voter.key for voter in self._membership.voters if voter.id != leader_id)
            return State.RESIGNED, ResignedState(preferred, self._election_deadline_ms(now_ms))
        if leader_id is not None and leader_id != self._config.id:
            endpoints = self._membership.endpoints_of(leader_id)
            if endpoints:
                return State.FOLLOWER, self._follower(leader_id, endpoints, now_ms)
        if self.epoch == 0 and self._membership.is_electable:
            # This replica knows of no election: a new quorum need not wait for a leader.
            # If there is one, pre-votes are rejected and change nothing.
            return self._unattached_or_voted, UnattachedState(now_ms + self._first_election_delay_ms)
        return self._unattached_or_voted, UnattachedState(self._election_deadline_ms(now_ms))

    @property
    def _first_election_delay_ms(self) -> int:
        """A short random time, so that votes of nodes that start together are rarely split."""
        return self._config.random_below(min(FIRST_ELECTION_MS, self._config.settings.election_timeout_ms))

    @property
    def _unattached_or_voted(self) -> State:
        return State.UNATTACHED if self._epoch_and_vote.vote is None else State.VOTED

    def _nominee(self, now_ms: int) -> NomineeState:
        granted = (self._config.id,) if self._membership.is_voter else ()
        return NomineeState(self._membership.voters, self._election_deadline_ms(now_ms), granted)

    def _follower(self, leader_id: BrokerId, endpoints: tuple[Endpoint, ...], now_ms: int) -> FollowerState:
        settings = self._config.settings
        return FollowerState(
            leader_id,
            endpoints,
            deadline_ms=now_ms + settings.fetch_timeout_ms,
            update_voter_at_ms=now_ms + settings.update_voter_interval_ms,
        )

    def _election_deadline_ms(self, now_ms: int) -> int:
        """Return a random time, one to two election timeouts from now, so that votes are rarely split."""
        timeout_ms = self._config.settings.election_timeout_ms
        return now_ms + timeout_ms + self._config.random_below(timeout_ms)

    def _transition(self, state: State, role: Role) -> None:
        """Change the state and the role; no other method changes them."""
        assert state in TRANSITIONS[self._state], f"illegal transition from {self._state} to {state}"
        before = self._role
        self._state, self._role = state, role
        self._connections.reset()
        self._announce()
        if isinstance(before, LeaderState):
            self._reject_pending(before)

    def _announce(self) -> None:
        """Report a new epoch or leader."""
        current = (self.epoch, self.leader_id)
        if current != self._last_announcement:
            self._last_announcement = current
            self._outbox.add(LeaderChanged(*current))

    def _reject_pending(self, leader: LeaderState) -> None:
        """Respond to the requests that were pending while this replica was the leader."""
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        for fetch in leader.parked_fetches.take_all():
            response = fetch_error_response(self.current_leader(fetch.request), error)
            self._outbox.respond(fetch.request, response)
        if leader.change is not None:
            message = "the leader has changed; the change of the voter set may still be committed"
            self._respond_to_change(leader.change, error, message)

    def _respond_to_change(self, change: VoterChange, error: ErrorCode, message: str | None) -> None:
        kind = AddRaftVoterResponse if isinstance(change, AddingVoter) else RemoveRaftVoterResponse
        self._outbox.respond(change.request, kind(error_code=error, error_message=message))
