"""One followed partition: what a follower knows of its copy, and what there is to do with it.

    TRUNCATING --its last epoch's end is found at the leader--> FETCHING
    TRUNCATING --the leader names an epoch that is not known here--> TRUNCATING (KIP-279)
    FETCHING --the answer names a diverging epoch: the log is cut--> FETCHING (KIP-595)
    FETCHING --OFFSET_OUT_OF_RANGE--> RESETTING --the leader's bounds are known--> FETCHING
    any --a new leader epoch--> TRUNCATING or FETCHING

BUILDING_REMOTE_LOG_AUX joins them with tiered storage, for OFFSET_MOVED_TO_TIERED_STORAGE.

Whatever has to be done to a log is an action, which the shell performs and then reports as performed or
failed; the state follows from what the log says afterwards.

Source: PartitionFetchState of Apache Kafka, KIP-101, KIP-279, KIP-595.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from protocol.errors import ErrorCode
from protocol.ids import LeaderEpoch, Offset, TopicPartition
from storage.leader_epoch import LeaderEpochCache


class ReplicaState(Enum):
    """What a follower is about to ask the leader."""

    TRUNCATING = auto()
    """Where its last epoch ends (OffsetForLeaderEpoch)."""
    FETCHING = auto()
    """The records from the end of its log on (Fetch)."""
    RESETTING = auto()
    """Where the leader's log starts and ends (ListOffsets)."""


_LEGAL: Final[dict[ReplicaState, frozenset[ReplicaState]]] = {
    ReplicaState.TRUNCATING: frozenset({ReplicaState.TRUNCATING, ReplicaState.FETCHING}),
    ReplicaState.FETCHING: frozenset({ReplicaState.FETCHING, ReplicaState.RESETTING}),
    ReplicaState.RESETTING: frozenset({ReplicaState.RESETTING, ReplicaState.FETCHING}),
}


class LocalLog(Protocol):
    """What the state machine reads of the follower's own log; a PartitionLog is one."""

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that can be read."""

    @property
    def log_end_offset(self) -> Offset:
        """Where the next record goes."""

    @property
    def high_watermark(self) -> Offset:
        """Below it all is known to be committed."""

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Where each leader epoch starts."""


@dataclass(slots=True, eq=False)
class FollowedPartition:
    """One partition that is copied from one leader in one leader epoch.

    `lag` is None until the leader has answered once; `delayed_until_ms` is when it may be asked again.
    """

    topic_partition: TopicPartition
    topic_id: UUID
    leader_epoch: LeaderEpoch
    log: LocalLog
    state: ReplicaState
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch | None = None
    lag: Offset | None = None
    delayed_until_ms: int = 0
    failures: int = 0
    """Errors in a row."""
    leader_end_offset: Offset | None = None
    """While RESETTING: the leader's log end, None while it is not known."""

    def transition(self, state: ReplicaState) -> None:
        """Move on; an illegal move is our own bug."""
        assert state in _LEGAL[self.state], f"{self.topic_partition}: {self.state} -> {state}"
        self.state = state
        self.leader_end_offset = None

    def is_due(self, state: ReplicaState, now_ms: int) -> bool:
        """Whether the request of `state` may be sent now."""
        return self.state is state and self.delayed_until_ms <= now_ms

    @property
    def is_in_sync(self) -> bool:
        """Whether the copy had all committed records when the leader answered last."""
        return self.lag is not None and self.lag <= 0

    def follow_log(self, *, compares_epochs: bool) -> None:
        """Take the fetch offset from the log after it was changed, and its last epoch if that is compared."""
        self.fetch_offset = self.log.log_end_offset
        self.last_fetched_epoch = self.log.leader_epochs.latest_epoch if compares_epochs else None


class Append(NamedTuple):
    """Append the batches behind `offset`, then follow the leader's high watermark and log start."""

    partition: FollowedPartition
    offset: Offset
    records: bytes | memoryview
    high_watermark: Offset
    log_start_offset: Offset


class Truncate(NamedTuple):
    """Cut the log so that it ends at `offset`; `is_complete` is False when the leader is asked once more."""

    partition: FollowedPartition
    offset: Offset
    is_complete: bool
    reason: str


class RestartAt(NamedTuple):
    """Drop the whole log and go on at `offset`, where the leader's log starts."""

    partition: FollowedPartition
    offset: Offset
    reason: str


class Delayed(NamedTuple):
    """Nothing to do but to log it: the partition waits because the leader answered with `code`."""

    partition: FollowedPartition
    code: ErrorCode


class Failed(NamedTuple):
    """Nothing to do but to log it: the partition is not copied until its metadata changes."""

    partition: FollowedPartition
    code: ErrorCode
    reason: str


Action: TypeAlias = Append | Truncate | RestartAt | Delayed | Failed
