"""BUILDING_REMOTE_LOG_AUX: the steps of a follower whose fetch offset is in the remote tier only.

The leader deletes records from its disk that are in the tier, and returns only local records to followers. A
follower that needs a lower offset restarts at the leader's first local offset. The leader epochs and
producers of the earlier records are read from the tier: they were stored with the segment that contains the
previous offset. With `prefers_last_tiered_offset` an empty log starts after the last offset in the tier
instead, so that it copies as few records as possible (KIP-1023).

    LOG_START -> LOCAL_START or PENDING_UPLOAD -> EPOCH_END -> [SEGMENT_EPOCH ->] AUXILIARY -> restart
    any step -> LOG_START, after a delay: the segment's metadata is not available yet, the tier fails, ...

A segment that another replica uploaded may end after the leader's first local offset. The stored producers
are those at its end, so the log starts after it. Before that, the follower checks with the leader that the
leader has the whole segment. This is not so if a former leader uploaded it before an unclean election. Then
the log starts at the leader's first local offset, and producers that wrote after it are removed, as if they
had expired.

Differs from Apache Kafka, which truncates the log before it reads the tier, and does not check the segment
with the leader.
I/O: none; `RemoteTier` looks up metadata in memory.
Source: KIP-405, KIP-1023; TierStateMachine and AbstractFetcherThread of Apache Kafka 4.3; KAFKA-16105.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias
from uuid import UUID

from tidelog.cluster.replication.aux_build import AuxBuild, AuxStep, RemoteSegment
from tidelog.cluster.replication.follower_state import (
    FetchAuxiliary,
    FollowedPartition,
    PartitionDelayed,
    RestartAt,
    RestartFromRemote,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.storage.disk.errors import CorruptSnapshot
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache
from tidelog.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot


class RemoteTier(Protocol):
    """The remote segments whose metadata this node has."""

    def find_segment(
        self, topic_id: UUID, topic_partition: TopicPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteSegment | None:
        """Return the complete segment that contains `offset` in `epoch`; None if none is known."""


Delay: TypeAlias = Callable[[FollowedPartition, ErrorCode, int], PartitionDelayed]


class AuxBuilder:
    """Performs the steps for the partitions of one fetcher; `tier` is None if this node has no tier.

    `delay` delays a partition. The build then restarts with the first step.
    """

    def __init__(self, tier: RemoteTier | None, delay: Delay) -> None:
        self.prefers_last_tiered_offset = False
        """follower.fetch.last.tiered.offset.enable"""
        self._tier = tier
        self._delay = delay

    def prefer_last_tiered_offset(self, enabled: bool) -> None:
        """Set follower.fetch.last.tiered.offset.enable."""
        self.prefers_last_tiered_offset = enabled

    def can_build(self, partition: FollowedPartition) -> bool:
        """Return whether this node has a remote tier and the topic is tiered."""
        return self._tier is not None and partition.log.remote_log_enabled

    def must_start_at_last_tiered_offset(self, partition: FollowedPartition) -> bool:
        """Return whether a log that restarts must copy only records that are not in the tier."""
        is_empty = partition.log.log_end_offset == 0
        return self.prefers_last_tiered_offset and is_empty and self.can_build(partition)

    # -- responses of the leader

    def on_offset(
        self, partition: FollowedPartition, offset: Offset, epoch: LeaderEpoch, now_ms: int
    ) -> RestartAt | PartitionDelayed | None:
        """Handle the requested offset, and the epoch in which it was or will be written."""
        build = _require_build(partition)
        if build.step is AuxStep.LOG_START:
            is_last = self.must_start_at_last_tiered_offset(partition)
            build.set_log_start(offset, must_start_at_last_tiered_offset=is_last)
            return None
        if build.step is AuxStep.PENDING_UPLOAD and offset < 0:
            # A new leader does not have this offset until its first upload.
            return self.wait(partition, "the leader does not know the end of the remote tier yet", now_ms)
        if offset <= build.log_start_offset:
            return RestartAt(
                partition, offset, f"the leader's log starts at {offset}, and all of it is local"
            )
        return self._request_epoch_end(partition, build, offset, epoch, now_ms)

    def _request_epoch_end(
        self, partition: FollowedPartition, build: AuxBuild, offset: Offset, epoch: LeaderEpoch, now_ms: int
    ) -> RestartAt | PartitionDelayed | None:
        """Request the end of the epoch before `offset`, to find the remote segment before it (KIP-405)."""
        if epoch < 0:
            return self.wait(partition, f"the leader has no epoch for its offset {offset}", now_ms)
        build.set_start(offset, epoch)
        return None

    def skip_pending_upload(self, partition: FollowedPartition) -> bool:
        """Request the first local offset if the step is PENDING_UPLOAD; return whether it was."""
        return partition.aux is not None and partition.aux.skip_pending_upload()

    def on_epoch_end(
        self, partition: FollowedPartition, epoch: LeaderEpoch, end_offset: Offset, now_ms: int
    ) -> FetchAuxiliary | PartitionDelayed | None:
        """Handle the end of `epoch` at the leader, the largest epoch up to the requested one."""
        build = _require_build(partition)
        if build.step is AuxStep.EPOCH_END:
            build.set_epoch_end(epoch, end_offset)
            return self._find_segment(partition, build, now_ms)
        build.set_segment_epoch_end(epoch, end_offset)
        assert build.segment is not None, build
        return FetchAuxiliary(partition, build, build.segment)

    def _find_segment(
        self, partition: FollowedPartition, build: AuxBuild, now_ms: int
    ) -> FetchAuxiliary | PartitionDelayed | None:
        last = build.start_offset - 1
        segment = None
        if self._tier is not None:
            segment = self._tier.find_segment(
                partition.topic_id, partition.topic_partition, build.epoch, last
            )
        if segment is None or segment.end_offset < last:
            return self.wait(
                partition, f"no remote segment with offset {last} of epoch {build.epoch} is known yet", now_ms
            )
        build.set_segment(segment, is_whole_at_leader=self._is_whole_segment_at_leader(segment, last))
        return FetchAuxiliary(partition, build, segment) if build.waits_for_tier else None

    def _is_whole_segment_at_leader(self, segment: RemoteSegment, last: Offset) -> bool:
        """Return whether the leader certainly has the whole segment, because the segment ends at `last`."""
        return segment.end_offset == last

    def wait(self, partition: FollowedPartition, reason: str, now_ms: int) -> PartitionDelayed:
        """Delay the partition because of `reason`; the build restarts with the first step."""
        delayed = self._delay(partition, ErrorCode.OFFSET_NOT_AVAILABLE, now_ms)
        return delayed._replace(code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, reason=reason)

    # -- responses of the tier

    def restart_from_segment(
        self,
        partition: FollowedPartition,
        leader_epochs: Iterable[tuple[LeaderEpoch, Offset]],
        producer_snapshot: bytes | None,
        now_ms: int,
    ) -> RestartFromRemote | PartitionDelayed:
        """Return the restart of the log with the leader epochs and producers stored with the segment."""
        build = _require_build(partition)
        assert build.segment is not None, build
        start = build.segment.end_offset + 1 if build.is_segment_of_leader else build.start_offset
        entries = [EpochEntry(*entry) for entry in leader_epochs]
        if any(entry.epoch < 0 or entry.start_offset < 0 for entry in entries):
            return self.wait(partition, f"the tier has invalid leader epochs: {entries}", now_ms)
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


def _require_build(partition: FollowedPartition) -> AuxBuild:
    assert partition.aux is not None, f"{partition.topic_partition} is {partition.state}"
    return partition.aux


def _producers_at(snapshot: bytes, offset: Offset) -> bytes:
    """Return the snapshot without producers that wrote at or above `offset`."""
    entries = decode_snapshot(snapshot, "the producer snapshot of a remote segment")
    known = [entry for entry in entries if entry.last_offset < offset]
    return snapshot if len(known) == len(entries) else encode_snapshot(known)
