"""The role data of LEADER: the fetch position of each replica, and the high watermark.

Source: KIP-595, KIP-853 (positions by replica key), KAFKA-15489 (check quorum).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.settings import QuorumSettings
from tidelog.cluster.quorum.voter_set import ReplicaKey, Voter, VoterSet
from tidelog.protocol.ids import BrokerId, Offset
from tidelog.protocol.messages.fetch import FetchPartition


class ReplicaPosition:
    """The fetch position of one replica, which its leader derives from the replica's fetches."""

    def __init__(
        self, key: ReplicaKey, end_offset: Offset | None = None, last_fetch_ms: int | None = None
    ) -> None:
        self._key = key
        self._end_offset = end_offset
        self._last_fetch_ms = last_fetch_ms
        self._last_caught_up_ms: int | None = None
        self._last_fetch_leader_end_offset: Offset = -1
        self._has_acknowledged_leader = False
        self._directory_id: UUID | None = None
        self._reported_voter: Voter | None = None

    @property
    def key(self) -> ReplicaKey:
        """The replica, without directory id for a static voter."""
        return self._key

    @property
    def end_offset(self) -> Offset | None:
        """The end of the replica's durable log; None if unknown."""
        return self._end_offset

    @property
    def last_fetch_ms(self) -> int | None:
        """The time of the last fetch; None before the first."""
        return self._last_fetch_ms

    @property
    def last_caught_up_ms(self) -> int | None:
        """The last time at which the replica had the whole log; None if never."""
        return self._last_caught_up_ms

    @property
    def has_acknowledged_leader(self) -> bool:
        """Whether the replica knows the leader of this epoch."""
        return self._has_acknowledged_leader

    @property
    def directory_id(self) -> UUID | None:
        """The directory id in the last fetch; it becomes part of a static voter's key by an upgrade."""
        return self._directory_id

    @property
    def reported_voter(self) -> Voter | None:
        """The entry that a static voter reported by UpdateRaftVoter, for an upgrade; None if it did not."""
        return self._reported_voter

    def on_fetch(
        self, offset: Offset, leader_end_offset: Offset, directory_id: UUID | None, now_ms: int
    ) -> None:
        """Record a fetch: the replica has all records below `offset` durably.

        It was caught up at its last fetch if `offset` is not below the end of the leader's log at that time.
        """
        if offset >= leader_end_offset:
            self._last_caught_up_ms = now_ms
        elif offset >= self._last_fetch_leader_end_offset >= 0:
            self._last_caught_up_ms = self._last_fetch_ms
        self._last_fetch_leader_end_offset = leader_end_offset
        self._end_offset = offset
        self._last_fetch_ms = now_ms
        self._has_acknowledged_leader = True
        self._directory_id = directory_id

    def acknowledge_leader(self) -> None:
        """Record that the replica knows the leader of this epoch."""
        self._has_acknowledged_leader = True

    def set_reported_voter(self, voter: Voter) -> None:
        """Store the entry that a static voter reported."""
        self._reported_voter = voter

    def set_end_offset(self, offset: Offset) -> None:
        """Set the end of the durable log of the leader itself."""
        self._end_offset = offset

    def set_key(self, key: ReplicaKey) -> None:
        """Set the key after a change of the voter set; the new key may contain the directory id."""
        self._key = key


class ReplicaPositions:
    """The positions of all voters, and of the observers that fetched recently.

    Bounds: `observers_max` observers; an observer is removed `observer_session_timeout_ms` after its fetch.
    """

    def __init__(self, own_id: BrokerId, voters: VoterSet, settings: QuorumSettings) -> None:
        self._own_id = own_id
        self._settings = settings
        self._voters = {voter.id: ReplicaPosition(voter.key) for voter in voters}
        self._observers: dict[ReplicaKey, ReplicaPosition] = {}
        if own_id in self._voters:
            self._voters[own_id].acknowledge_leader()

    @property
    def voters(self) -> Mapping[BrokerId, ReplicaPosition]:
        """The positions of the voters by node id."""
        return self._voters

    @property
    def observers(self) -> Mapping[ReplicaKey, ReplicaPosition]:
        """The positions of the observers."""
        return self._observers

    @property
    def replicated_offset(self) -> Offset | None:
        """The highest offset that a majority of the voters has; None if it is unknown."""
        ends = sorted(
            (
                -1 if position.end_offset is None else position.end_offset
                for position in self._voters.values()
            ),
            reverse=True,
        )
        offset = ends[len(ends) // 2] if ends else -1
        return None if offset < 0 else offset

    @property
    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        others = [position for position in self._voters.values() if position.key.id != self._own_id]
        others.sort(key=lambda position: (-(position.end_offset or 0), position.key.id))
        return tuple(position.key for position in others)

    @property
    def fetching_voters_needed(self) -> int:
        """The number of other voters that form a majority, together with the leader if it is a voter."""
        return len(self._voters) // 2 + (0 if self._own_id in self._voters else 1)

    def update_voters(self, voters: VoterSet) -> None:
        """Apply another voter set; a replica keeps its position when it becomes a voter or an observer."""
        before = self._voters
        self._voters = {}
        for voter in voters:
            old = before.get(voter.id)
            if old is not None and old.key.directory_id in (None, voter.key.directory_id):
                position = before.pop(voter.id)
                position.set_key(voter.key)
            else:
                position = self._observers.pop(voter.key, ReplicaPosition(voter.key))
            self._voters[voter.id] = position
        for position in before.values():
            self._observers.setdefault(position.key, position)

    def set_own_end_offset(self, offset: Offset) -> None:
        """Set the end of the leader's own durable log, which counts if the leader is a voter."""
        own = self._voters.get(self._own_id)
        if own is not None:
            own.set_end_offset(offset)

    def observer(self, key: ReplicaKey, now_ms: int) -> ReplicaPosition:
        """Return the position of an observer that fetches now; add it if it is new."""
        position = self._observers.get(key)
        if position is None:
            position = self._observers[key] = ReplicaPosition(key, last_fetch_ms=now_ms)
            self.expire_observers(now_ms)
        return position

    def expire_observers(self, now_ms: int) -> None:
        """Remove observers whose session has expired, and above the bound those with the oldest fetch."""
        oldest_ms = now_ms - self._settings.observer_session_timeout_ms
        for key, position in list(self._observers.items()):
            if position.last_fetch_ms is None or position.last_fetch_ms < oldest_ms:
                del self._observers[key]
        while len(self._observers) > self._settings.observers_max:
            oldest = min(self._observers.values(), key=lambda position: position.last_fetch_ms or 0)
            del self._observers[oldest.key]


class CheckQuorum:
    """The timer of a leader that a majority must restart by fetching (KAFKA-15489)."""

    def __init__(self, timeout_ms: int, now_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._deadline_ms = now_ms + timeout_ms
        self._fetching_voters: set[BrokerId] = set()

    @property
    def deadline_ms(self) -> int:
        """The time at which the leader resigns unless a majority fetches before."""
        return self._deadline_ms

    def on_fetch(self, voter_id: BrokerId, voters_needed: int, now_ms: int) -> None:
        """Count a fetch of a voter; restart the timer if `voters_needed` voters have fetched."""
        self._fetching_voters.add(voter_id)
        if len(self._fetching_voters) >= voters_needed:
            self.restart(now_ms)

    def restart(self, now_ms: int) -> None:
        """Restart the timer: a majority must fetch again."""
        self._fetching_voters.clear()
        self._deadline_ms = now_ms + self._timeout_ms

    def retain(self, voter_ids: Iterable[BrokerId]) -> None:
        """Remove the fetches of replicas that are no longer voters."""
        self._fetching_voters.intersection_update(voter_ids)


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    """A fetch that waits for records or for a higher high watermark."""

    request: RequestReceived
    replica: ReplicaKey
    partition: FetchPartition
    deadline_ms: int


class ParkedFetches:
    """The purgatory of the metadata log; the caller bounds the number of fetches."""

    def __init__(self) -> None:
        self._fetches: list[ParkedFetch] = []

    def __len__(self) -> int:
        return len(self._fetches)

    @property
    def next_deadline_ms(self) -> int | None:
        """The time at which the first fetch expires; None if there is none."""
        return min((each.deadline_ms for each in self._fetches), default=None)

    def add(self, fetch: ParkedFetch) -> None:
        """Park a fetch."""
        self._fetches.append(fetch)

    def take_fetch_of(self, replica: ReplicaKey) -> ParkedFetch | None:
        """Remove and return the fetch of a replica, if any; consumers without id may park several fetches."""
        for fetch in self._fetches:
            if fetch.replica == replica and replica.id >= 0:
                self._fetches.remove(fetch)
                return fetch
        return None

    def take(self, is_complete: Callable[[ParkedFetch], bool]) -> list[ParkedFetch]:
        """Remove and return the fetches for which `is_complete`, in order of arrival."""
        complete: list[ParkedFetch] = []
        parked: list[ParkedFetch] = []
        for fetch in self._fetches:
            (complete if is_complete(fetch) else parked).append(fetch)
        self._fetches = parked
        return complete

    def take_all(self) -> list[ParkedFetch]:
        """Remove and return all fetches, in order of arrival."""
        fetches, self._fetches = self._fetches, []
        return fetches


@dataclass(frozen=True, slots=True)
class AddingVoter:
    """A pending AddRaftVoter; `offset` of its record is None until the new voter reported its versions."""

    request: RequestReceived
    voter: Voter
    deadline_ms: int
    ack_when_committed: bool
    offset: Offset | None = None


@dataclass(frozen=True, slots=True)
class RemovingVoter:
    """A pending RemoveRaftVoter, with the offset of its record."""

    request: RequestReceived
    deadline_ms: int
    offset: Offset


VoterChange: TypeAlias = AddingVoter | RemovingVoter


class LeaderState:
    """The role data of LEADER.

    Invariant: `high_watermark` is None until a record of this epoch is committed, then never decreases.
    """

    def __init__(
        self,
        own_id: BrokerId,
        voters: VoterSet,
        *,
        epoch_start_offset: Offset,
        settings: QuorumSettings,
        now_ms: int,
    ) -> None:
        self.epoch_start_offset = epoch_start_offset
        self.positions = ReplicaPositions(own_id, voters, settings)
        self.check_quorum = CheckQuorum(settings.check_quorum_timeout_ms, now_ms)
        self.parked_fetches = ParkedFetches()
        self._high_watermark: Offset | None = None
        self._begin_epoch_at_ms = now_ms
        self._flush_ends: dict[int, Offset] = {}
        self._flushed_to: Offset = 0
        self._change: VoterChange | None = None

    @property
    def high_watermark(self) -> Offset | None:
        """The offset up to which the log is committed; None until a record of this epoch is committed."""
        return self._high_watermark

    @property
    def begin_epoch_at_ms(self) -> int:
        """The time of the next BeginQuorumEpoch."""
        return self._begin_epoch_at_ms

    @property
    def flushed_to(self) -> Offset:
        """The end of the part of the leader's own log that is known to be durable."""
        return self._flushed_to

    @property
    def change(self) -> VoterChange | None:
        """The pending change of the voter set; None if there is none."""
        return self._change

    def update_voters(self, voters: VoterSet) -> None:
        """Apply another voter set."""
        self.positions.update_voters(voters)
        self.check_quorum.retain(self.positions.voters)

    def advance_high_watermark(self, offset: Offset) -> None:
        """Set the high watermark: the log is committed up to `offset`."""
        self._high_watermark = offset

    def schedule_begin_epoch(self, at_ms: int) -> None:
        """Set the time of the next BeginQuorumEpoch."""
        self._begin_epoch_at_ms = at_ms

    def on_flush_started(self, ticket: int, end_offset: Offset) -> None:
        """Record that the `Persist` with `ticket` makes the log durable up to `end_offset`."""
        self._flush_ends[ticket] = end_offset

    def on_flush_completed(self, ticket: int) -> bool:
        """Apply a completed `Persist`; return whether it was a flush of the leader's log in this epoch."""
        end_offset = self._flush_ends.pop(ticket, None)
        if end_offset is None or end_offset < self._flushed_to:
            return False
        self._flushed_to = end_offset
        return True

    def start_change(self, change: VoterChange) -> None:
        """Record a pending change of the voter set, or a further step of it."""
        self._change = change

    def end_change(self) -> None:
        """Remove the pending change."""
        self._change = None
