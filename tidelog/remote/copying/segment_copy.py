"""Copying of one segment: COPY_SEGMENT_STARTED, its objects, COPY_SEGMENT_FINISHED.

    failure or end               what remains                       cleaned up by
    before STARTED is confirmed  perhaps a record                   the leader: a dangling copy
    while objects are written    a record, perhaps objects          this node at once, else the leader
    the store is not available   the same                           not at all: the next attempt continues
    leadership lost meanwhile    the same                           the same
    before FINISHED is confirmed perhaps a segment in use: not deleted; this leader publishes it again

Source: RLMCopyTask.copyLogSegment of Apache Kafka 4.3; KIP-405, KIP-917; KAFKA-16511, KAFKA-17062,
KAFKA-17428.
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.protocol.ids import Offset
from tidelog.remote.expiry.segment_deletion import discard_copy
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from tidelog.remote.ports.storage_manager import LogSegmentData, StoreUnavailable
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.remote.tasks.local_segments import LocalSegment
from tidelog.remote.tasks.replica import Role
from tidelog.storage.disk.checkpoints import encode_leader_epochs
from tidelog.storage.disk.log_files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment


class SegmentNotCopyable(Exception):
    """A part of the segment is missing: leader epochs, a producer snapshot or an index."""


class CustomMetadataTooLarge(Exception):
    """The custom metadata exceeds remote.log.metadata.custom.metadata.max.bytes."""


class LeadershipLost(Exception):
    """Another replica may be leader now; the copy was not finished."""


def describe_segment(
    context: RemoteLogContext, role: Role, segment: LogSegment, planned: LocalSegment
) -> tuple[RemoteLogSegmentMetadata, LogSegmentData]:
    """Return the metadata of a copy, and the files to copy.

    Errors: SegmentNotCopyable. Apache Kafka does not copy such a segment either: it fails repeatedly, after
    COPY_SEGMENT_STARTED.
    """
    log = role.replica.log
    end_offset = planned.end_offset
    epochs = log.leader_epochs.entries_in_range(segment.base_offset, end_offset)
    if not epochs:
        raise SegmentNotCopyable(
            f"{log.directory}: no leader epoch is known for offset {segment.base_offset}"
        )
    metadata = RemoteLogSegmentMetadata(
        remote_log_segment_id=context.new_segment_id(role.replica.topic_id_partition),
        start_offset=segment.base_offset,
        end_offset=end_offset - 1,
        max_timestamp_ms=segment.largest_timestamp(),
        broker_id=context.broker_id,
        event_timestamp_ms=context.clock.wall_ms(),
        segment_size_bytes=segment.size_bytes,
        segment_leader_epochs=tuple(epochs),
        is_txn_index_empty=segment.txn_index.entry_count == 0,
    )
    return metadata, _files_of(log, segment, end_offset)


def _files_of(log: PartitionLog, segment: LogSegment, end_offset: Offset) -> LogSegmentData:
    def path(suffix: str) -> str:
        return f"{log.directory}/{file_name(segment.base_offset, suffix)}"

    snapshot = log.producers.snapshots.path(end_offset)
    required = [path(LOG_SUFFIX), path(OFFSET_INDEX_SUFFIX), path(TIME_INDEX_SUFFIX), snapshot]
    missing = [file for file in required if not log.fs.exists(file)]
    if missing:
        raise SegmentNotCopyable(
            f"{log.directory}: segment {segment.base_offset} lacks files {', '.join(missing)}"
        )
    return LogSegmentData(
        log=required[0],
        offset_index=required[1],
        time_index=required[2],
        producer_snapshot=snapshot,
        leader_epochs=encode_leader_epochs(log.leader_epochs.entries_in_range(-1, end_offset)),
        transaction_index=path(TXN_INDEX_SUFFIX) if segment.txn_index.entry_count else None,
    )


class SegmentCopy:
    """One attempt to copy one segment.

    Call `begin` once, `store` until the store is available, then `publish` until it succeeds or the copy is
    abandoned.
    """

    __slots__ = ("_context", "_data", "_role", "metadata")

    def __init__(
        self, context: RemoteLogContext, role: Role, segment: LogSegment, planned: LocalSegment
    ) -> None:
        """Prepare the copy of `segment`. Errors: SegmentNotCopyable."""
        self._context = context
        self._role = role
        self.metadata, self._data = describe_segment(context, role, segment, planned)

    @property
    def id(self) -> RemoteLogSegmentId:
        """The id of this attempt."""
        return self.metadata.remote_log_segment_id

    def is_copy_of(self, planned: LocalSegment) -> bool:
        """Return whether this is a copy of the segment `planned`."""
        metadata = self.metadata
        return (metadata.start_offset, metadata.end_offset + 1, metadata.segment_size_bytes) == (
            planned.base_offset,
            planned.end_offset,
            planned.size_bytes,
        )

    async def begin(self) -> None:
        """Publish the start of the copy.

        Errors: RemoteMetadataError; LeadershipLost after the copy was discarded.
        """
        self._context.faults(FaultPoint.BEFORE_COPY_STARTED)
        await self._context.metadata.add_remote_log_segment_metadata(self.metadata)
        self._context.faults(FaultPoint.AFTER_COPY_STARTED)
        await self._stop_unless_leader()

    async def store(self) -> None:
        """Write the objects.

        Errors: StoreUnavailable, after which the caller may repeat the call; LeadershipLost,
        CustomMetadataTooLarge and other errors of the storage manager, after the written objects were
        discarded.
        """
        context, faults = self._context, self._context.faults
        counters = context.figures.topic(self.id.topic_id_partition.topic)
        counters.copy_requests += 1
        try:
            custom = await context.run_copy(context.storage.copy_log_segment_data, self.metadata, self._data)
        except StoreUnavailable:
            await self._stop_unless_leader()
            raise
        except Exception:
            await discard_copy(context, self.metadata)
            raise
        faults(FaultPoint.AFTER_COPY_STORED)
        self.metadata = replace(
            self.metadata, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED, custom_metadata=custom
        )
        limit = context.settings.remote_log_metadata_custom_metadata_max_bytes
        if custom is not None and len(custom) > limit:
            await discard_copy(context, self.metadata)
            raise CustomMetadataTooLarge(
                f"the custom metadata of {self.id} has {len(custom)} bytes; "
                f"remote.log.metadata.custom.metadata.max.bytes is {limit}"
            )
        await self._stop_unless_leader()

    async def publish(self) -> None:
        """Publish the end of the copy; may be called again after an error with an unknown outcome.

        Errors: RemoteMetadataError; LeadershipLost.
        """
        context = self._context
        if not self._role.is_current:
            raise LeadershipLost(str(self.id))
        update = context.update_of(self.metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        await context.metadata.update_remote_log_segment_metadata(update)
        context.faults(FaultPoint.AFTER_COPY_FINISHED)
        context.figures.topic(self.id.topic_id_partition.topic).copy_bytes += self.metadata.segment_size_bytes

    async def _stop_unless_leader(self) -> None:
        if not self._role.is_current:
            await discard_copy(self._context, self.metadata)
            raise LeadershipLost(str(self.id))
