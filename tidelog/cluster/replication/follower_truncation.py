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


class Cut(NamedTuple):
    """The new end of the log, and whether the leader's log is known to diverge exactly there."""

    offset: Offset
    is_complete: bool
    reason: str


def cut_for(log: LocalLog, leader_epoch: LeaderEpoch, leader_end_offset: Offset) -> Cut:
    """Return the truncation for the end of `leader_epoch`, at most the requested epoch, at the leader.

    The offset is -1 if the leader has no such epoch.
    """
    if leader_end_offset < 0:
        return Cut(log.high_watermark, True, "the leader does not know the epoch: to the high watermark")
    own_end = log.log_end_offset
    if leader_epoch == NO_LEADER_EPOCH:
        return Cut(min(leader_end_offset, own_end), True, "to the end offset that the leader named")
    own = log.leader_epochs.end_offset_for(leader_epoch, own_end)
    if own.end_offset < 0:
        reason = f"no epoch up to the leader's {leader_epoch} is known: to its end there"
        return Cut(min(leader_end_offset, own_end), True, reason)
    if own.epoch != leader_epoch:
        reason = f"epoch {leader_epoch} is not known: to the end of epoch {own.epoch}, then ask again"
        return Cut(min(own.end_offset, own_end), False, reason)
    reason = f"epoch {leader_epoch} ends at {leader_end_offset} at the leader, at {own.end_offset} here"
    return Cut(min(own.end_offset, leader_end_offset, own_end), True, reason)
