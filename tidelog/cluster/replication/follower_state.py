"""One followed partition: its states, and the actions on its log.

    TRUNCATING --the leader returns the end of the follower's last epoch--> FETCHING
    TRUNCATING --the leader returns an epoch that the follower lacks--> TRUNCATING (KIP-279)
    FETCHING --the response has a diverging epoch: the log is truncated--> FETCHING (KIP-595)
    FETCHING --OFFSET_OUT_OF_RANGE--> RESETTING --the leader's bounds are known--> FETCHING
    FETCHING --OFFSET_MOVED_TO_TIERED_STORAGE--> BUILDING_REMOTE_LOG_AUX (KIP-405)
    FETCHING, TRUNCATING --truncation below the first local offset of a tiered log--> BUILDING_REMOTE_LOG_AUX
    RESETTING --an empty log may start at the last tiered offset--> BUILDING_REMOTE_LOG_AUX (KIP-1023)
    BUILDING_REMOTE_LOG_AUX --the log has restarted with auxiliary state from the tier--> FETCHING
    any --a new leader epoch--> TRUNCATING or FETCHING

A replica does not fetch while it builds the auxiliary state. It leaves the ISR after replica.lag.time.max.ms,
and then no longer delays the high watermark. Its old log is unchanged until the auxiliary state is complete.

Each change of a log is an action, which the shell performs and then reports as performed or failed. The
new state depends on the log after the action.

Source: PartitionFetchState and TierStateMachine of Apache Kafka, KIP-101, KIP-279, KIP-405, KIP-595.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.cluster.replication.aux_build import AuxBuild, RemoteSegment
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache


class ReplicaState(Enum):
    """The state of a follower, which determines its next request to the leader."""

    TRUNCATING = auto()
    """OffsetForLeaderEpoch: the end of its last epoch."""
    FETCHING = auto()
    """Fetch: the records from the end of its log."""
    RESETTING = auto()
    """ListOffsets: the start and end of the leader's log."""
    BUILDING_REMOTE_LOG_AUX = auto()
    """ListOffsets and OffsetForLeaderEpoch, then reads from the remote tier; see follower_aux."""


_TRANSITIONS: Final[dict[ReplicaState, frozenset[ReplicaState]]] = {
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
    """The part of the follower's own log that the state machine reads; implemented by PartitionLog."""

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
    """The number of consecutive errors."""
    leader_end_offset: Offset | None = None
    """The leader's log end while RESETTING; None if it is not known yet."""
    aux: AuxBuild | None = None
    """The progress while BUILDING_REMOTE_LOG_AUX; None in other states."""

    def transition(self, state: ReplicaState) -> None:
        """Change the state; an illegal transition is a bug."""
        assert state in _TRANSITIONS[self.state], f"{self.topic_partition}: {self.state} -> {state}"
        self.state = state
        self.leader_end_offset = None
        self.aux = AuxBuild() if state is ReplicaState.BUILDING_REMOTE_LOG_AUX else None

    def restart(self, *, compares_epochs: bool) -> None:
        """Return to FETCHING at the end of the log, in a new leader epoch or on a new connection."""
        self.state, self.aux = ReplicaState.FETCHING, None
        self.follow_log(compares_epochs=compares_epochs)

    def start_truncation(self) -> None:
        """Change to TRUNCATING after `restart`, to find the divergence from the leader's log."""
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
        """Set the end of the leader's log while RESETTING."""
        self.leader_end_offset = offset

    def is_ready(self, state: ReplicaState, now_ms: int) -> bool:
        """Return whether the request of `state` may be sent now."""
        return self.state is state and self.delayed_until_ms <= now_ms

    @property
    def waits_for_tier(self) -> bool:
        """Whether the next step depends on the remote tier."""
        return self.aux is not None and self.aux.waits_for_tier

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
    """Truncate the log to `offset`; if not `is_complete`, another request to the leader follows."""

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

    The result is reported by `on_auxiliary_fetched` or `on_auxiliary_failed`. It is ignored if the partition
    or its leader epoch has changed. `build` identifies the attempt.
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


class PartitionDelayed(NamedTuple):
    """No action: the partition is delayed because of the error `code`, which the shell logs."""

    partition: FollowedPartition
    code: ErrorCode
    reason: str = ""


class PartitionFailed(NamedTuple):
    """No action: the partition is not copied until its metadata changes; the shell logs it."""

    partition: FollowedPartition
    code: ErrorCode
    reason: str


LogAction: TypeAlias = Append | Truncate | RestartAt | RestartFromRemote
"""The actions on a log, reported by `on_action_performed` or `on_action_failed`."""

Action: TypeAlias = LogAction | FetchAuxiliary | PartitionDelayed | PartitionFailed
