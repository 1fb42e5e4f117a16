"""One followed partition: its states, and the actions on its log.

    TRUNCATING --its last epoch's end is found at the leader--> FETCHING
    TRUNCATING --the leader returns an epoch that the follower lacks--> TRUNCATING (KIP-279)
    FETCHING --the response has a diverging epoch: the log is truncated--> FETCHING (KIP-595)
    FETCHING --OFFSET_OUT_OF_RANGE--> RESETTING --the leader's bounds are known--> FETCHING
    FETCHING --OFFSET_MOVED_TO_TIERED_STORAGE--> BUILDING_REMOTE_LOG_AUX (KIP-405)
    FETCHING, TRUNCATING --truncation below the first local offset of a tiered log--> BUILDING_REMOTE_LOG_AUX
    RESETTING --an empty log may start at the last tiered offset--> BUILDING_REMOTE_LOG_AUX (KIP-1023)
    BUILDING_REMOTE_LOG_AUX --the log has restarted with auxiliary state from the tier--> FETCHING
    any --a new leader epoch--> TRUNCATING or FETCHING

A replica does not fetch while it builds. It leaves the ISR after replica.lag.time.max.ms, and then does
not delay the high watermark any more. Its old log is unchanged until the auxiliary state is complete.

Each change of a log is an action, which the shell performs and then reports as performed or failed. The
new state depends on the log after the action.

Source: PartitionFetchState and TierStateMachine of Apache Kafka, KIP-101, KIP-279, KIP-405, KIP-595.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache


class ReplicaState(Enum):
    """The next request of a follower to the leader."""

    TRUNCATING = auto()
    """Where its last epoch ends (OffsetForLeaderEpoch)."""
    FETCHING = auto()
    """The records from the end of its log on (Fetch)."""
    RESETTING = auto()
    """Where the leader's log starts and ends (ListOffsets)."""
    BUILDING_REMOTE_LOG_AUX = auto()
    """Where it may begin, and the remote tier what came before that; see follower_aux."""


_LEGAL: Final[dict[ReplicaState, frozenset[ReplicaState]]] = {
    ReplicaState.TRUNCATING: frozenset(
        {ReplicaState.TRUNCATING, ReplicaState.FETCHING, ReplicaState.BUILDING_REMOTE_LOG_AUX}
    ),
    ReplicaState.FETCHING: frozenset(
        {ReplicaState.FETCHING, ReplicaState.RESETTING, ReplicaState.BUILDING_REMOTE_LOG_AUX}
    ),
    ReplicaState.RESETTING: frozenset(
        {ReplicaState.RESETTING, ReplicaState.FETCHING, ReplicaState.BUILDING_REMOTE_LOG_AUX}
    ),
    ReplicaState.BUILDING_REMOTE_LOG_AUX: frozenset(
        {ReplicaState.BUILDING_REMOTE_LOG_AUX, ReplicaState.FETCHING}
    ),
}


class LocalLog(Protocol):
    """The follower's own log as the state machine reads it; a PartitionLog is one."""

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that can be read."""

    @property
    def local_log_start_offset(self) -> Offset:
        """The first offset on the local disk; lower offsets are in the remote tier."""

    @property
    def log_end_offset(self) -> Offset:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> Offset:
        """The offset up to which the log is known to be committed."""

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """The start offset of each leader epoch."""

    @property
    def remote_log_enabled(self) -> bool:
        """Whether the log is tiered."""


class AuxStep(Enum):
    """The steps of BUILDING_REMOTE_LOG_AUX, in this order; after an error the first step is next."""

    LOG_START = auto()
    """Ask the leader where its log starts."""
    PENDING_UPLOAD = auto()
    """Ask it for the first offset that is not in the tier, only in KIP-1023 ..."""
    LOCAL_START = auto()
    """... or for its first local offset."""
    EPOCH_END = auto()
    """Ask where the epoch before the one of that offset ends: which epoch does the tier end with?"""
    SEGMENT_EPOCH = auto()
    """Ask whether a remote segment that reaches beyond that offset is the leader's."""
    AUXILIARY = auto()
    """Read the leader epochs and the producers from the tier."""


class RemoteSegment(Protocol):
    """A segment in the remote tier; a RemoteLogSegmentMetadata is one."""

    @property
    def end_offset(self) -> Offset:
        """Its last offset, inclusive."""

    @property
    def segment_leader_epochs(self) -> Sequence[tuple[LeaderEpoch, Offset]]:
        """The epochs of its records and where they start; at least one."""


@dataclass(slots=True, eq=False)
class AuxBuild:
    """The progress of a build: the log restarts at `start_offset`, in the leader's `start_epoch`.

    `epoch` is the epoch of the offset before, which `segment` contains.
    """

    step: AuxStep = AuxStep.LOG_START
    log_start_offset: Offset = 0
    start_offset: Offset = 0
    start_epoch: LeaderEpoch = NO_LEADER_EPOCH
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    segment: RemoteSegment | None = None
    is_segment_of_leader: bool = True
    """Whether all of the segment is in the leader's log, and not only the part below `start_offset`."""


@dataclass(slots=True, eq=False)
class FollowedPartition:
    """One partition that is copied from one leader in one leader epoch.

    `lag` is None until the first response of the leader; no request is sent before `delayed_until_ms`.
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
    aux: AuxBuild | None = None
    """While BUILDING_REMOTE_LOG_AUX, and only then."""

    def transition(self, state: ReplicaState) -> None:
        """Change the state; an illegal transition is a bug."""
        assert state in _LEGAL[self.state], f"{self.topic_partition}: {self.state} -> {state}"
        self.state = state
        self.leader_end_offset = None
        self.aux = AuxBuild() if state is ReplicaState.BUILDING_REMOTE_LOG_AUX else None

    def restart(self, *, compares_epochs: bool) -> None:
        """Return to FETCHING from any state, at the end of the log: a leader epoch or connection is new."""
        self.state, self.aux = ReplicaState.FETCHING, None
        self.follow_log(compares_epochs=compares_epochs)

    def start_truncation(self) -> None:
        """Find the divergence from the leader's log before the first fetch, after `restart`."""
        self.state = ReplicaState.TRUNCATING

    def delay(self, delay_ms: int, now_ms: int) -> None:
        """Send no request for `delay_ms` after one more error."""
        self.failures += 1
        self.delayed_until_ms = now_ms + delay_ms

    def on_fetched(self) -> None:
        """Reset the number of consecutive errors after a response without error."""
        self.failures = 0

    def set_lag(self, lag: Offset | None) -> None:
        """Set the lag behind the leader; None while it is unknown."""
        self.lag = lag

    def set_leader_end_offset(self, offset: Offset) -> None:
        """Note the end of the leader's log while RESETTING."""
        self.leader_end_offset = offset

    def is_due(self, state: ReplicaState, now_ms: int) -> bool:
        """Return whether the request of `state` may be sent now."""
        return self.state is state and self.delayed_until_ms <= now_ms

    @property
    def waits_for_tier(self) -> bool:
        """Whether the next step depends on the remote tier."""
        return self.aux is not None and self.aux.step is AuxStep.AUXILIARY

    @property
    def is_in_sync(self) -> bool:
        """Whether the copy had all committed records at the last response of the leader."""
        return self.lag is not None and self.lag <= 0

    def follow_log(self, *, compares_epochs: bool) -> None:
        """Set the fetch offset, and the epoch if `compares_epochs`, after a change of the log."""
        self.fetch_offset = self.log.log_end_offset
        self.last_fetched_epoch = self.log.leader_epochs.latest_epoch if compares_epochs else None


class Append(NamedTuple):
    """Append the batches at `offset`, then apply the leader's high watermark and log start."""

    partition: FollowedPartition
    offset: Offset
    records: bytes | memoryview
    high_watermark: Offset
    log_start_offset: Offset


class Truncate(NamedTuple):
    """Truncate the log to `offset`; if not `is_complete`, the leader is asked once more."""

    partition: FollowedPartition
    offset: Offset
    is_complete: bool
    reason: str


class RestartAt(NamedTuple):
    """Delete the whole log and restart at `offset`, where the leader's log starts."""

    partition: FollowedPartition
    offset: Offset
    reason: str


class FetchAuxiliary(NamedTuple):
    """Read the leader epochs and producers of `segment` from the tier, outside of the fetch loop.

    The result is reported by `auxiliary_fetched` or `auxiliary_failed`; it is ignored if the partition or
    its leader epoch has changed. `build` identifies the attempt.
    """

    partition: FollowedPartition
    build: AuxBuild
    segment: RemoteSegment


class RestartFromRemote(NamedTuple):
    """Delete the local log and restart at `offset`, with leader epochs and producers from the tier."""

    partition: FollowedPartition
    offset: Offset
    log_start_offset: Offset
    leader_epochs: tuple[EpochEntry, ...]
    producer_snapshot: bytes | None
    reason: str


class Delayed(NamedTuple):
    """No action: the partition is delayed because of the leader's error `code`; the shell logs it."""

    partition: FollowedPartition
    code: ErrorCode
    reason: str = ""


class Failed(NamedTuple):
    """No action: the partition is not copied until its metadata changes; the shell logs it."""

    partition: FollowedPartition
    code: ErrorCode
    reason: str


LogAction: TypeAlias = Append | Truncate | RestartAt | RestartFromRemote
"""The actions on a log, reported by `performed` or `action_failed`."""

Action: TypeAlias = LogAction | FetchAuxiliary | Delayed | Failed
