"""Where a follower cuts its log: at the end of the last epoch that it shares with the leader.

The leader says for one epoch of the follower's where it ends in the leader's log, or names the largest
epoch below it. As long as the follower does not know the epoch that was named, it cuts to the end of
what it has below that, and asks again (KIP-279). The high watermark is never what is cut to, except
where the follower has records without any epoch (KIP-101).

Source: AbstractFetcherThread.getOffsetTruncationState of Apache Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.cluster.replication.follower_state import LocalLog
from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset


class Cut(NamedTuple):
    """The offset at which the log shall end, and whether the leader's log begins to differ just there."""

    offset: Offset
    is_complete: bool
    reason: str


def cut_for(log: LocalLog, leader_epoch: LeaderEpoch, leader_end_offset: Offset) -> Cut:
    """Where to cut when the leader's `leader_epoch`, which is at most the one asked for, ends there.

    -1 for the offset: the leader knows of no such epoch.
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
