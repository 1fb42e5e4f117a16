"""Where a follower begins when what it needs is in the remote tier only: BUILDING_REMOTE_LOG_AUX by steps.

The leader deletes from its disk what is in the tier, and gives followers only what it has on its disk. A
follower that needs an offset below begins anew at the leader's first local offset. The epochs and the
producers of what comes before, which it would know had it copied that, come from the tier, out of what
was stored with the segment that holds the offset just before. With `prefers_last_tiered_offset` an empty
log begins behind the last offset in the tier instead, so that it copies as little as can be (KIP-1023).

    LOG_START -> LOCAL_START or PENDING_UPLOAD -> EPOCH_END -> [SEGMENT_EPOCH ->] AUXILIARY -> begins anew
    any step -> LOG_START, after a while: the segment's metadata is not here yet, the tier fails, ...

A segment may reach beyond the leader's first local offset, when another replica uploaded it. Its
producers are those at its end, so the log begins behind it; the leader is asked first whether all of the
segment is its own. It is not when a leader uploaded it that an unclean election deposed: then the log
begins where the leader's does, and producers that wrote in the foreign part are forgotten, as if they
had expired.

Differs from Apache Kafka, which cuts the log before it reads the tier, and does not ask about the segment.
I/O: none; `RemoteTier` looks up what is in memory.
Source: KIP-405, KIP-1023; TierStateMachine and AbstractFetcherThread of Apache Kafka 4.3; KAFKA-16105.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias
from uuid import UUID

from tidelog.cluster.replication.follower_state import (
    AuxBuild,
    AuxStep,
    Delayed,
    FetchAuxiliary,
    FollowedPartition,
    RemoteSegment,
    RestartAt,
    RestartFromRemote,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.storage.disk.errors import CorruptSnapshot
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache
from tidelog.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot


class RemoteTier(Protocol):
    """What is known here of remote segments."""

    def segment_with(
        self, topic_id: UUID, topic_partition: TopicPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteSegment | None:
        """The whole segment that holds `offset` as written in `epoch`; None while none is known."""


AuxAction: TypeAlias = RestartAt | FetchAuxiliary | Delayed
"""What follows from an answer, if it is not another question."""

Delay: TypeAlias = Callable[[FollowedPartition, ErrorCode, int], Delayed]


class AuxBuilder:
    """Takes partitions of one fetcher through the steps; `tier` is None when this node has no tier.

    `delay` has a partition wait, and then begin again with the first step.
    """

    def __init__(self, tier: RemoteTier | None, delay: Delay) -> None:
        self.prefers_last_tiered_offset = False
        """follower.fetch.last.tiered.offset.enable"""
        self._tier = tier
        self._delay = delay

    def can_build(self, partition: FollowedPartition) -> bool:
        """Whether this node has a tier and has heard that the topic is tiered."""
        return self._tier is not None and partition.log.remote_log_enabled

    def begins_at_last_tiered_offset(self, partition: FollowedPartition) -> bool:
        """Whether a log that has to begin anew shall copy only what is not in the tier."""
        is_empty = partition.log.log_end_offset == 0
        return self.prefers_last_tiered_offset and is_empty and self.can_build(partition)

    # -- what the leader answers

    def on_offset(
        self, partition: FollowedPartition, offset: Offset, epoch: LeaderEpoch, now_ms: int
    ) -> RestartAt | Delayed | None:
        """The offset that was asked for, and the epoch it was or will be written in."""
        build = _of(partition)
        if build.step is AuxStep.LOG_START:
            build.log_start_offset = offset
            is_last = self.begins_at_last_tiered_offset(partition)
            build.step = AuxStep.PENDING_UPLOAD if is_last else AuxStep.LOCAL_START
            return None
        if build.step is AuxStep.PENDING_UPLOAD and offset < 0:
            # Before its first upload a new leader learns from the tier how far that reaches.
            return self.wait(partition, "the leader does not know yet what is in the tier", now_ms)
        if offset <= build.log_start_offset:
            return RestartAt(
                partition, offset, f"all that is left of the leader's log from {offset} on is local"
            )
        return self._ask_epoch_end(partition, build, offset, epoch, now_ms)

    def _ask_epoch_end(
        self, partition: FollowedPartition, build: AuxBuild, offset: Offset, epoch: LeaderEpoch, now_ms: int
    ) -> RestartAt | Delayed | None:
        """Ask where the epoch before `offset` ends, to find the remote segment before it (KIP-405)."""
        if epoch < 0:
            return self.wait(partition, f"the leader knows of no epoch for its offset {offset}", now_ms)
        build.start_offset, build.start_epoch = offset, epoch
        build.step = AuxStep.EPOCH_END
        return None

    def skip_pending_upload(self, partition: FollowedPartition) -> bool:
        """The leader does not know the question; True when it is asked for its first local offset instead."""
        build = partition.aux
        if build is None or build.step is not AuxStep.PENDING_UPLOAD:
            return False
        build.step = AuxStep.LOCAL_START
        return True

    def on_epoch_end(
        self, partition: FollowedPartition, epoch: LeaderEpoch, end_offset: Offset, now_ms: int
    ) -> FetchAuxiliary | Delayed | None:
        """Where `epoch` ends at the leader, which is the largest up to the one that was asked for."""
        build = _of(partition)
        if build.step is AuxStep.EPOCH_END:
            # An epoch without records lies between two others: the answer names the one that has some.
            build.epoch = epoch if end_offset >= build.start_offset else build.start_epoch
            return self._find_segment(partition, build, now_ms)
        assert build.step is AuxStep.SEGMENT_EPOCH and build.segment is not None, build
        is_same_epoch = epoch == build.segment.segment_leader_epochs[-1][0]
        build.is_segment_of_leader = is_same_epoch and end_offset > build.segment.end_offset
        return _fetch(partition, build, build.segment)

    def _find_segment(
        self, partition: FollowedPartition, build: AuxBuild, now_ms: int
    ) -> FetchAuxiliary | Delayed | None:
        last = build.start_offset - 1
        segment = None
        if self._tier is not None:
            segment = self._tier.segment_with(
                partition.topic_id, partition.topic_partition, build.epoch, last
            )
        if segment is None or segment.end_offset < last:
            return self.wait(
                partition, f"no remote segment with offset {last} of epoch {build.epoch} is known yet", now_ms
            )
        build.segment = segment
        if self._is_known_to_leader(segment, last):
            return _fetch(partition, build, segment)
        build.step = AuxStep.SEGMENT_EPOCH
        return None

    def _is_known_to_leader(self, segment: RemoteSegment, last: Offset) -> bool:
        """Return whether the leader has the whole segment, as it does if the segment ends at `last`."""
        return segment.end_offset == last

    def wait(self, partition: FollowedPartition, reason: str, now_ms: int) -> Delayed:
        """It cannot be done now, because of `reason`."""
        delayed = self._delay(partition, ErrorCode.OFFSET_NOT_AVAILABLE, now_ms)
        return delayed._replace(code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, reason=reason)

    # -- what the tier answers

    def built(
        self,
        partition: FollowedPartition,
        leader_epochs: Iterable[tuple[LeaderEpoch, Offset]],
        producer_snapshot: bytes | None,
        now_ms: int,
    ) -> RestartFromRemote | Delayed:
        """How the log begins, with what was stored with the segment."""
        build = _of(partition)
        assert build.segment is not None, build
        start = build.segment.end_offset + 1 if build.is_segment_of_leader else build.start_offset
        entries = [EpochEntry(*entry) for entry in leader_epochs]
        if any(entry.epoch < 0 or entry.start_offset < 0 for entry in entries):
            return self.wait(partition, f"the tier has leader epochs that cannot be: {entries}", now_ms)
        epochs = LeaderEpochCache.of(entries)
        epochs.truncate_from_end(start)
        if epochs.epoch_for_offset(build.start_offset - 1) != build.epoch:
            expected = f"offset {build.start_offset - 1} in epoch {build.epoch}"
            return self.wait(
                partition, f"the tier has leader epochs {entries}, which do not have {expected}", now_ms
            )
        epochs.truncate_from_start(build.log_start_offset)
        if start == build.start_offset and build.start_epoch > build.epoch:
            epochs.assign(build.start_epoch, start)
        if producer_snapshot is not None:
            try:
                producer_snapshot = _producers_at(producer_snapshot, start)
            except CorruptSnapshot as error:
                return self.wait(partition, str(error), now_ms)
        reason = f"the leader has offset {build.start_offset - 1} in the remote tier only"
        return RestartFromRemote(
            partition, start, build.log_start_offset, tuple(epochs.entries), producer_snapshot, reason
        )


def _of(partition: FollowedPartition) -> AuxBuild:
    assert partition.aux is not None, f"{partition.topic_partition} is {partition.state}"
    return partition.aux


def _fetch(partition: FollowedPartition, build: AuxBuild, segment: RemoteSegment) -> FetchAuxiliary:
    build.step = AuxStep.AUXILIARY
    return FetchAuxiliary(partition, build, segment)


def _producers_at(snapshot: bytes, offset: Offset) -> bytes:
    """The snapshot without producers that wrote at or above `offset`, where the log differs or ends."""
    entries = decode_snapshot(snapshot, "the producer snapshot of a remote segment")
    known = [entry for entry in entries if entry.last_offset < offset]
    return snapshot if len(known) == len(entries) else encode_snapshot(known)
