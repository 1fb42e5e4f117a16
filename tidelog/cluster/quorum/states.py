"""The states of a replica, the legal transitions, and the role data of each state.

| state | meaning | ends when |
|---|---|---|
| UNATTACHED | knows no leader of its epoch | it votes, learns the leader, or its election timeout expires |
| VOTED | as UNATTACHED, and has voted in this epoch | as UNATTACHED |
| PROSPECTIVE | requests pre-votes in its current epoch (KIP-996) | a majority grants or rejects; timeout |
| CANDIDATE | has voted for itself in a new epoch and requests votes | it is elected, or a timeout |
| LEADER | elected by a majority | a higher epoch, no majority fetches, or it resigns |
| FOLLOWER | fetches from the leader of its epoch | no fetch succeeds within the timeout, or a higher epoch |
| RESIGNED | was the leader of this epoch | the other voters elect a leader, or its timeout expires |

A higher epoch makes any state UNATTACHED, or FOLLOWER if the leader is known as well. An observer (not in
the voter set) is only UNATTACHED or FOLLOWER, or RESIGNED if it was the leader when it was removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.cluster.quorum.leader_state import LeaderState
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey, VoterSet
from tidelog.protocol.ids import BrokerId


class State(Enum):
    """The state of a replica; the table at the top of this file describes each state."""

    UNATTACHED = "unattached"
    VOTED = "voted"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


_WITHOUT_LEADERSHIP: Final = frozenset(
    (State.UNATTACHED, State.VOTED, State.PROSPECTIVE, State.CANDIDATE, State.FOLLOWER)
)

TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.UNATTACHED: _WITHOUT_LEADERSHIP,
    State.VOTED: _WITHOUT_LEADERSHIP,
    State.PROSPECTIVE: _WITHOUT_LEADERSHIP,
    State.CANDIDATE: _WITHOUT_LEADERSHIP | {State.LEADER},
    State.LEADER: frozenset((State.UNATTACHED, State.FOLLOWER, State.RESIGNED)),
    State.FOLLOWER: _WITHOUT_LEADERSHIP,
    State.RESIGNED: frozenset((State.UNATTACHED, State.FOLLOWER)),
}
"""The legal transitions. FOLLOWER to FOLLOWER is a new epoch, or more endpoints of the same leader."""


@dataclass(frozen=True, slots=True)
class UnattachedState:
    """The role data of UNATTACHED and VOTED: a voter starts an election at `deadline_ms`."""

    deadline_ms: int


class NomineeState:
    """The role data of PROSPECTIVE and CANDIDATE: counts the votes or pre-votes of one set of voters."""

    def __init__(self, voters: VoterSet, deadline_ms: int, granted: Iterable[BrokerId] = ()) -> None:
        """Start an attempt that ends at `deadline_ms`; `granted` are votes that it already has."""
        self.voters = voters
        self._deadline_ms = deadline_ms
        self._granting_ids = set(granted)
        self._rejecting_ids: set[BrokerId] = set()

    @property
    def deadline_ms(self) -> int:
        """The end of this attempt."""
        return self._deadline_ms

    @property
    def granting_voters(self) -> list[BrokerId]:
        """The voters that granted their vote, in order of ids."""
        return sorted(self._granting_ids)

    @property
    def unrecorded_voters(self) -> list[BrokerId]:
        """The voters that have not responded, in order of ids."""
        return [
            each
            for each in self.voters.ids
            if each not in self._granting_ids and each not in self._rejecting_ids
        ]

    @property
    def is_elected(self) -> bool:
        """Whether a majority granted its vote."""
        return len(self._granting_ids) >= self.voters.majority

    @property
    def is_rejected(self) -> bool:
        """Whether the voters that have not rejected are no majority."""
        return len(self.voters) - len(self._rejecting_ids) < self.voters.majority

    def record_vote(self, voter_id: BrokerId, *, is_granted: bool) -> None:
        """Count the vote of one voter."""
        (self._granting_ids if is_granted else self._rejecting_ids).add(voter_id)

    def back_off_until(self, deadline_ms: int) -> None:
        """End this attempt no later than at `deadline_ms`."""
        self._deadline_ms = min(self._deadline_ms, deadline_ms)


@dataclass(frozen=True, slots=True)
class SnapshotFetch:
    """A snapshot that is being fetched; the next chunk begins at `position`."""

    snapshot_id: SnapshotId
    position: int = 0


class FollowerState:
    """The role data of FOLLOWER: the leader, the progress of fetching, and the timers."""

    def __init__(
        self,
        leader_id: BrokerId,
        endpoints: tuple[Endpoint, ...],
        *,
        deadline_ms: int,
        update_voter_at_ms: int,
    ) -> None:
        """Follow the leader `leader_id`.

        `deadline_ms`: the end of the fetch timeout. `update_voter_at_ms`: the next check of the voter entry.
        """
        self.leader_id = leader_id
        self.endpoints = endpoints
        self._deadline_ms = deadline_ms
        self._update_voter_at_ms = update_voter_at_ms
        self._has_fetched = False
        self._has_leader_failed = False
        self._has_reported_voter = False
        self._snapshot: SnapshotFetch | None = None

    @property
    def deadline_ms(self) -> int:
        """The time at which a voter starts an election, and an observer searches for a new leader."""
        return self._deadline_ms

    @property
    def update_voter_at_ms(self) -> int:
        """The time at which this replica next checks its entry in the voter set."""
        return self._update_voter_at_ms

    @property
    def has_fetched(self) -> bool:
        """Whether a recent fetch from the leader of this epoch succeeded; then pre-votes are rejected."""
        return self._has_fetched

    @property
    def has_leader_failed(self) -> bool:
        """Whether the last request to the leader failed; an observer then fetches from another node."""
        return self._has_leader_failed

    @property
    def has_reported_voter(self) -> bool:
        """Whether this replica sent UpdateRaftVoter to the leader of this epoch."""
        return self._has_reported_voter

    @property
    def snapshot(self) -> SnapshotFetch | None:
        """The snapshot that is being fetched, None if records are fetched."""
        return self._snapshot

    def on_fetched(self, deadline_ms: int) -> None:
        """Restart the fetch timeout after a successful fetch."""
        self._deadline_ms = deadline_ms
        self._has_fetched = True
        self._has_leader_failed = False

    def on_fetch_timeout(self, deadline_ms: int) -> None:
        """Restart the fetch timeout of an observer, and mark the leader as failed."""
        self._deadline_ms = deadline_ms
        self._has_fetched = False
        self._has_leader_failed = True

    def on_leader_resigned(self, deadline_ms: int) -> None:
        """Start the next election no later than at `deadline_ms`."""
        self._deadline_ms = min(self._deadline_ms, deadline_ms)
        self._has_fetched = False

    def on_request_failed(self, node_id: BrokerId) -> None:
        """Record whether the leader failed: a request to `node_id` has failed."""
        self._has_leader_failed = node_id == self.leader_id

    def schedule_voter_update(self, at_ms: int) -> None:
        """Set the time of the next check of the own voter entry."""
        self._update_voter_at_ms = at_ms

    def on_voter_reported(self) -> None:
        """Record that UpdateRaftVoter was sent."""
        self._has_reported_voter = True

    def start_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Fetch a snapshot from its first byte, in place of records."""
        self._snapshot = SnapshotFetch(snapshot_id)

    def advance_snapshot(self, size: int) -> SnapshotFetch:
        """Advance the position in the snapshot by `size` bytes; return the new position."""
        assert self._snapshot is not None
        self._snapshot = replace(self._snapshot, position=self._snapshot.position + size)
        return self._snapshot

    def end_snapshot(self) -> None:
        """Fetch records again."""
        self._snapshot = None


class ResignedState:
    """The role data of RESIGNED: the voters that must still be notified, and the preferred successors."""

    def __init__(self, preferred: tuple[ReplicaKey, ...], deadline_ms: int) -> None:
        """Start the state, which ends at `deadline_ms`; `preferred` are the other voters, the best first."""
        self.preferred_successors = preferred
        self.deadline_ms = deadline_ms
        self._unacknowledged = {each.id for each in preferred}

    def is_acknowledged_by(self, voter_id: BrokerId) -> bool:
        """Return whether a voter has acknowledged the resignation, or is not notified of it."""
        return voter_id not in self._unacknowledged

    def acknowledge(self, voter_id: BrokerId) -> None:
        """Record that a voter has acknowledged the resignation."""
        self._unacknowledged.discard(voter_id)


Role: TypeAlias = UnattachedState | NomineeState | LeaderState | FollowerState | ResignedState
