"""What a leader knows of the others: how far each has come, and what that commits.

Source: KIP-595, KIP-853 (positions by replica key), KAFKA-15489 (check quorum).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.voter_set import ReplicaKey, Voter, VoterSet
from tidelog.protocol.ids import BrokerId, Offset
from tidelog.protocol.messages.fetch import FetchPartition


@dataclass(slots=True)
class Position:
    """How far one replica has come."""

    key: ReplicaKey
    end_offset: Offset | None = None
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    leader_end_offset: Offset = -1
    """End of the leader's log at the last fetch: whoever is there at the next one was caught up then."""
    acknowledged: bool = False
    """Knows who leads this epoch."""
    directory_id: UUID | None = None
    """Of the log that fetched last; static voters are not known by it, but become so by an upgrade."""
    told: Voter | None = None
    """What a static voter said of itself (UpdateRaftVoter), for an upgrade."""

    def fetched(self, offset: Offset, leader_end_offset: Offset, now_ms: int) -> None:
        """The replica has everything below `offset`, durably."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif offset >= self.leader_end_offset >= 0:
            self.last_caught_up_ms = self.last_fetch_ms
        self.leader_end_offset = leader_end_offset
        self.end_offset = offset
        self.last_fetch_ms = now_ms
        self.acknowledged = True


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that waits for data or for the high watermark."""

    request: RequestReceived
    replica: ReplicaKey
    partition: FetchPartition
    deadline_ms: int


@dataclass(slots=True)
class AddingVoter:
    """AddRaftVoter under way."""

    request: RequestReceived
    voter: Voter
    deadline_ms: int
    ack_when_committed: bool
    offset: Offset | None = None
    """Of its record; None until the new voter has said what it supports."""


@dataclass(slots=True)
class RemovingVoter:
    """RemoveRaftVoter under way."""

    request: RequestReceived
    deadline_ms: int
    offset: Offset


VoterChange: TypeAlias = AddingVoter | RemovingVoter


@dataclass(slots=True)
class Leading:
    """What LEADER remembers.

    Invariant: `high_watermark` is None until a record of this epoch is committed, then never falls.
    """

    own: ReplicaKey
    epoch_start_offset: Offset
    check_quorum_at_ms: int
    begin_epoch_at_ms: int
    voters: dict[BrokerId, Position]
    observers: dict[ReplicaKey, Position] = field(default_factory=dict)
    high_watermark: Offset | None = None
    flushing: dict[int, Offset] = field(default_factory=dict)
    """By ticket of `Persist`, up to where it makes the log durable."""
    flushed_to: Offset = 0
    heard: set[BrokerId] = field(default_factory=set)
    """Voters that have fetched since check-quorum began anew."""
    parked: list[ParkedFetch] = field(default_factory=list)
    change: VoterChange | None = None

    def update_voters(self, voters: VoterSet) -> None:
        """Another voter set: positions stay, with whoever became voter or observer."""
        before = self.voters
        self.voters = {}
        for voter in voters:
            old = before.get(voter.id)
            if old is not None and old.key.directory_id in (None, voter.key.directory_id):
                position = before.pop(voter.id)
                position.key = voter.key
            else:
                position = self.observers.pop(voter.key, Position(voter.key))
            self.voters[voter.id] = position
        for position in before.values():
            self.observers.setdefault(position.key, position)
        self.heard &= self.voters.keys()

    def replicated_offset(self) -> Offset | None:
        """The highest offset that a majority of the voters has; None when some of it is not known."""
        ends = sorted(
            (-1 if position.end_offset is None else position.end_offset for position in self.voters.values()),
            reverse=True,
        )
        offset = ends[len(ends) // 2] if ends else -1
        return None if offset < 0 else offset

    @property
    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, those that have most of the log first."""
        others = [position for position in self.voters.values() if position.key.id != self.own.id]
        others.sort(key=lambda position: (-(position.end_offset or 0), position.key.id))
        return tuple(position.key for position in others)

    @property
    def heard_needed(self) -> int:
        """How many other voters make a majority, with this one when it is a voter."""
        return len(self.voters) // 2 + (0 if self.own.id in self.voters else 1)

    def expire_observers(self, before_ms: int, count_max: int) -> None:
        """Forget observers whose last fetch was before that, and the longest silent ones above the bound."""
        for key, position in list(self.observers.items()):
            if position.last_fetch_ms is None or position.last_fetch_ms < before_ms:
                del self.observers[key]
        while len(self.observers) > count_max:
            silent = min(self.observers.values(), key=lambda position: position.last_fetch_ms or 0)
            del self.observers[silent.key]
