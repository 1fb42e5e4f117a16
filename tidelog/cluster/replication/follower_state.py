"""One followed partition: what a follower knows of its copy, and what there is to do with it.

    TRUNCATING --its last epoch's end is found at the leader--> FETCHING
    TRUNCATING --the leader names an epoch that is not known here--> TRUNCATING (KIP-279)
    FETCHING --the answer names a diverging epoch: the log is cut--> FETCHING (KIP-595)
    FETCHING --OFFSET_OUT_OF_RANGE--> RESETTING --the leader's bounds are known--> FETCHING
    FETCHING --OFFSET_MOVED_TO_TIERED_STORAGE--> BUILDING_REMOTE_LOG_AUX (KIP-405)
    FETCHING, TRUNCATING --a cut below the first local offset of a tiered log--> BUILDING_REMOTE_LOG_AUX
    RESETTING --an empty log that is to begin at the last tiered offset--> BUILDING_REMOTE_LOG_AUX (KIP-1023)
    BUILDING_REMOTE_LOG_AUX --the log has begun anew with what the tier says of its past--> FETCHING
    any --a new leader epoch--> TRUNCATING or FETCHING

Who is building is not fetching, so that it leaves the ISR when replica.lag.time.max.ms is over, and does
not hold the high watermark up any longer. Its old log stays as it is until all of the new past is there.

Whatever has to be done to a log is an action, which the shell performs and then reports as performed or
failed; the state follows from what the log says afterwards.

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
    """What a follower is about to ask the leader."""

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
    """What the state machine reads of the follower's own log; a PartitionLog is one."""

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that can be read."""

    @property
    def local_log_start_offset(self) -> Offset:
        """The first offset on the local disk; what is below it is in the remote tier."""

    @property
    def log_end_offset(self) -> Offset:
        """Where the next record goes."""

    @property
    def high_watermark(self) -> Offset:
        """Below it all is known to be committed."""

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Where each leader epoch starts."""

    @property
    def remote_log_enabled(self) -> bool:
        """Whether the log is tiered."""


class AuxStep(Enum):
    """What is next while BUILDING_REMOTE_LOG_AUX, in this order; an error begins again with the first."""

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
    """The leader epochs and the producers are on their way from the tier."""


class RemoteSegment(Protocol):
    """What is needed of a segment in the remote tier; a RemoteLogSegmentMetadata is one."""

    @property
    def end_offset(self) -> Offset:
        """Its last offset, inclusive."""

    @property
    def segment_leader_epochs(self) -> Sequence[tuple[LeaderEpoch, Offset]]:
        """The epochs of its records and where they start; at least one."""


@dataclass(slots=True, eq=False)
class AuxBuild:
    """What is known by now of where a log can begin anew: at `start_offset`, of the leader's `start_epoch`.

    `epoch` is that of the offset before, which `segment` holds.
    """

    step: AuxStep = AuxStep.LOG_START
    log_start_offset: Offset = 0
    start_offset: Offset = 0
    start_epoch: LeaderEpoch = NO_LEADER_EPOCH
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    segment: RemoteSegment | None = None
    is_segment_of_leader: bool = True
    """Whether all of the segment is in the leader's log, and not only what is below `start_offset`."""


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
    aux: AuxBuild | None = None
    """While BUILDING_REMOTE_LOG_AUX, and only then."""

    def transition(self, state: ReplicaState) -> None:
        """Move on; an illegal move is our own bug."""
        assert state in _LEGAL[self.state], f"{self.topic_partition}: {self.state} -> {state}"
        self.state = state
        self.leader_end_offset = None
        self.aux = AuxBuild() if state is ReplicaState.BUILDING_REMOTE_LOG_AUX else None

    def is_due(self, state: ReplicaState, now_ms: int) -> bool:
        """Whether the request of `state` may be sent now."""
        return self.state is state and self.delayed_until_ms <= now_ms

    @property
    def waits_for_tier(self) -> bool:
        """Whether nothing is to be asked before the remote tier has answered."""
        return self.aux is not None and self.aux.step is AuxStep.AUXILIARY

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


class FetchAuxiliary(NamedTuple):
    """Get the leader epochs and producers of `segment` from the tier, off the loop that fetches.

    What comes of it is told with `auxiliary_fetched` or `auxiliary_failed`, unless the partition or its
    leader epoch is another by then. `build` says which attempt it was.
    """

    partition: FollowedPartition
    build: AuxBuild
    segment: RemoteSegment


class RestartFromRemote(NamedTuple):
    """Drop the local log and go on at `offset`, with these epochs and producers of what is in the tier."""

    partition: FollowedPartition
    offset: Offset
    log_start_offset: Offset
    leader_epochs: tuple[EpochEntry, ...]
    producer_snapshot: bytes | None
    reason: str


class Delayed(NamedTuple):
    """Nothing to do but to log it: the partition waits because the leader answered with `code`."""

    partition: FollowedPartition
    code: ErrorCode
    reason: str = ""


class Failed(NamedTuple):
    """Nothing to do but to log it: the partition is not copied until its metadata changes."""

    partition: FollowedPartition
    code: ErrorCode
    reason: str


LogAction: TypeAlias = Append | Truncate | RestartAt | RestartFromRemote
"""What is done to a log, and then reported with `performed` or `action_failed`."""

Action: TypeAlias = LogAction | FetchAuxiliary | Delayed | Failed
