"""The states of a replica, which may follow which, and what each of them remembers.

| state | what it is | ends when |
|---|---|---|
| UNATTACHED | knows no leader of its epoch | it votes, hears of a leader, or waits too long |
| VOTED | as UNATTACHED, and has voted in this epoch | as UNATTACHED |
| PROSPECTIVE | asks whether it would be elected, in its present epoch (KIP-996) | a majority would; or not |
| CANDIDATE | voted for itself in a new epoch and asks for votes | elected, or not |
| LEADER | elected by a majority | a higher epoch, no majority fetches, or it resigns |
| FOLLOWER | fetches from the leader of its epoch | no fetch succeeds for too long, or a higher epoch |
| RESIGNED | led this epoch and does not any more | the others elect, or it waits too long |

A higher epoch makes any of them UNATTACHED, or FOLLOWER when the leader is known with it. An observer
(not in the voter set) is only ever UNATTACHED or FOLLOWER, or RESIGNED when it was removed as the leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from tidelog.cluster.quorum.leading import Leading
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey, VoterSet
from tidelog.protocol.ids import BrokerId


class State(Enum):
    """See the table above."""

    UNATTACHED = "unattached"
    VOTED = "voted"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


_WAITING: Final = frozenset(
    (State.UNATTACHED, State.VOTED, State.PROSPECTIVE, State.CANDIDATE, State.FOLLOWER)
)

TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.UNATTACHED: _WAITING,
    State.VOTED: _WAITING,
    State.PROSPECTIVE: _WAITING,
    State.CANDIDATE: _WAITING | {State.LEADER},
    State.LEADER: frozenset((State.UNATTACHED, State.FOLLOWER, State.RESIGNED)),
    State.FOLLOWER: _WAITING,
    State.RESIGNED: frozenset((State.UNATTACHED, State.FOLLOWER)),
}
"""The legal moves. FOLLOWER to FOLLOWER is a new epoch, or more endpoints of the same leader."""


@dataclass(slots=True)
class Unattached:
    """What UNATTACHED and VOTED remember."""

    deadline_ms: int
    """When a voter stands for election."""


@dataclass(slots=True)
class Nominee:
    """What PROSPECTIVE and CANDIDATE remember: who answered how."""

    voters: VoterSet
    deadline_ms: int
    granted: set[BrokerId] = field(default_factory=set)
    rejected: set[BrokerId] = field(default_factory=set)

    @property
    def is_elected(self) -> bool:
        """A majority said yes."""
        return len(self.granted) >= self.voters.majority

    @property
    def is_rejected(self) -> bool:
        """Those that have not said no are no majority."""
        return len(self.voters) - len(self.rejected) < self.voters.majority

    @property
    def unheard(self) -> list[BrokerId]:
        """Who has not answered, in order of ids."""
        return [each for each in self.voters.ids if each not in self.granted and each not in self.rejected]


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot under way: `position` is where the next piece goes."""

    snapshot_id: SnapshotId
    position: int = 0


@dataclass(slots=True)
class Following:
    """What FOLLOWER remembers."""

    leader_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    deadline_ms: int
    """When a voter gives the leader up, an observer asks others too."""
    update_voter_at_ms: int
    has_fetched: bool = False
    """Whether the leader answered a fetch in this epoch, lately: then pre-votes of others are rejected."""
    snapshot: SnapshotFetch | None = None
    has_told: bool = False
    """Whether the leader was told what this voter is."""
    leader_failed: bool = False
    """The last request to the leader failed: an observer asks somebody else next."""


@dataclass(slots=True)
class Resigned:
    """What RESIGNED remembers: who has to hear of it, and who should be elected, best first."""

    unacknowledged: set[BrokerId]
    preferred: tuple[ReplicaKey, ...]
    deadline_ms: int


Role: TypeAlias = Unattached | Nominee | Leading | Following | Resigned
