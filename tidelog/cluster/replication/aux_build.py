"""The progress of one follower in BUILDING_REMOTE_LOG_AUX; follower_aux determines the steps."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Protocol

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset


class AuxStep(Enum):
    """The steps of BUILDING_REMOTE_LOG_AUX, in this order; after an error the first step is next."""

    LOG_START = auto()
    """Request the start of the leader's log."""
    PENDING_UPLOAD = auto()
    """Request the first offset that is not in the tier, only with KIP-1023."""
    LOCAL_START = auto()
    """Request the leader's first local offset; without KIP-1023, or if the leader does not support it."""
    EPOCH_END = auto()
    """Request the end of the epoch before the one of that offset: the tier ends with this epoch."""
    SEGMENT_EPOCH = auto()
    """Request the end of the segment's last epoch, if a remote segment reaches beyond that offset."""
    AUXILIARY = auto()
    """Read the leader epochs and the producers from the tier."""


class RemoteSegment(Protocol):
    """A segment in the remote tier; implemented by RemoteLogSegmentMetadata."""

    @property
    def end_offset(self) -> Offset:
        """The last offset of the segment, inclusive."""

    @property
    def segment_leader_epochs(self) -> Sequence[tuple[LeaderEpoch, Offset]]:
        """The epochs of its records and where they start; at least one."""


@dataclass(slots=True, eq=False)
class AuxBuild:
    """The progress of a build: the log restarts at `start_offset`, in the leader's `start_epoch`.

    `epoch` is the epoch of the previous offset, which `segment` contains.
    """

    step: AuxStep = AuxStep.LOG_START
    log_start_offset: Offset = 0
    start_offset: Offset = 0
    start_epoch: LeaderEpoch = NO_LEADER_EPOCH
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    segment: RemoteSegment | None = None
    is_segment_of_leader: bool = True
    """Whether the leader's log contains the whole segment, and not only the part below `start_offset`."""

    @property
    def waits_for_tier(self) -> bool:
        """Whether the next step depends on the remote tier."""
        return self.step is AuxStep.AUXILIARY

    def set_log_start(self, offset: Offset, *, must_start_at_last_tiered_offset: bool) -> None:
        """Record the start of the leader's log; the offset for the restart is requested next."""
        assert self.step is AuxStep.LOG_START, self
        self.log_start_offset = offset
        self.step = AuxStep.PENDING_UPLOAD if must_start_at_last_tiered_offset else AuxStep.LOCAL_START

    def skip_pending_upload(self) -> bool:
        """Request the first local offset if the step is PENDING_UPLOAD; return whether it was."""
        if self.step is not AuxStep.PENDING_UPLOAD:
            return False
        self.step = AuxStep.LOCAL_START
        return True

    def set_start(self, offset: Offset, epoch: LeaderEpoch) -> None:
        """Record offset and epoch of the restart; the end of the previous epoch is requested next."""
        self.start_offset, self.start_epoch = offset, epoch
        self.step = AuxStep.EPOCH_END

    def set_epoch_end(self, epoch: LeaderEpoch, end_offset: Offset) -> None:
        """Record the end of `epoch`, the largest epoch of the leader up to the requested one."""
        # Epochs without records are skipped: the response contains the last epoch that has records.
        self.epoch = epoch if end_offset >= self.start_offset else self.start_epoch

    def set_segment(self, segment: RemoteSegment, *, is_whole_at_leader: bool) -> None:
        """Record the segment before the start; it is read next if the leader has the whole segment."""
        self.segment = segment
        self.step = AuxStep.AUXILIARY if is_whole_at_leader else AuxStep.SEGMENT_EPOCH

    def set_segment_epoch_end(self, epoch: LeaderEpoch, end_offset: Offset) -> None:
        """Record the end of the segment's last epoch at the leader; the segment is read next."""
        assert self.step is AuxStep.SEGMENT_EPOCH and self.segment is not None, self
        is_same_epoch = epoch == self.segment.segment_leader_epochs[-1][0]
        self.is_segment_of_leader = is_same_epoch and end_offset > self.segment.end_offset
        self.step = AuxStep.AUXILIARY
