"""The truncation offset of a follower: the end of the last epoch that it shares with the leader.

The leader returns the end of one of the follower's epochs in its own log, or of the largest epoch below
it. While the follower does not have the returned epoch, it truncates to the end of its largest epoch
below, and repeats the request (KIP-279). It truncates to the high watermark only if its records have no
epoch (KIP-101).

Source: AbstractFetcherThread.getOffsetTruncationState of Apache Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.cluster.replication.follower_state import LocalLog
from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset


class TruncationState(NamedTuple):
    """The new end of the log, and whether the two logs are known to diverge exactly there."""

    offset: Offset
    is_complete: bool
    reason: str


def truncation_state(log: LocalLog, leader_epoch: LeaderEpoch, leader_end_offset: Offset) -> TruncationState:
    """Return the truncation for the end of `leader_epoch`, at most the requested epoch, at the leader.

    The offset is -1 if the leader has no such epoch.
    """
    if leader_end_offset < 0:
        reason = "the leader does not have the epoch; truncating to the high watermark"
        return TruncationState(log.high_watermark, True, reason)
    own_end = log.log_end_offset
    if leader_epoch == NO_LEADER_EPOCH:
        reason = "truncating to the end offset that the leader returned"
        return TruncationState(min(leader_end_offset, own_end), True, reason)
    own = log.leader_epochs.end_offset_for(leader_epoch, own_end)
    if own.end_offset < 0:
        reason = f"no epoch up to {leader_epoch} is known here; truncating to its end offset at the leader"
        return TruncationState(min(leader_end_offset, own_end), True, reason)
    if own.epoch != leader_epoch:
        reason = f"epoch {leader_epoch} is unknown here; truncating to the end of epoch {own.epoch} first"
        return TruncationState(min(own.end_offset, own_end), False, reason)
    reason = f"epoch {leader_epoch} ends at {leader_end_offset} at the leader, and at {own.end_offset} here"
    return TruncationState(min(own.end_offset, leader_end_offset, own_end), True, reason)
