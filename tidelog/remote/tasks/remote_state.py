"""Updates of a log's offsets from the remote metadata, on each run of a task."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidelog.protocol.ids import Offset
from tidelog.remote.ports.metadata_manager import RemoteMetadataNotReady
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.remote_lineage import (
    EpochLineage,
    first_readable_offset,
    highest_remote_offset,
)
from tidelog.remote.tasks.replica import TieredReplica


def update_copied_offset(context: RemoteLogContext, replica: TieredReplica) -> Offset:
    """Update the log's highest offset in remote storage and return it; -1 if nothing is remote.

    It is computed on each call and not cached: the metadata may receive the last copy of a former leader
    after this replica became leader (KAFKA-20732: retention must not use the offset before).
    Errors: RemoteMetadataNotReady until all earlier metadata is read; RemoteMetadataError.
    """
    partition, log = replica.topic_id_partition, replica.log
    if not context.metadata.is_ready(partition):
        raise RemoteMetadataNotReady(f"the remote metadata of {partition} has not been read yet")
    copied_offset = highest_remote_offset(
        log.leader_epochs,
        log.log_end_offset,
        partial(context.metadata.highest_offset_for_epoch, partition),
    )
    log.remote_border.raise_highest_offset(copied_offset)
    return copied_offset


def advance_log_start(replica: TieredReplica, segments: Iterable[RemoteLogSegmentMetadata]) -> None:
    """Advance a leader's log start to the first readable offset if a former leader deleted records."""
    log = replica.log
    start = first_readable_offset(
        EpochLineage(log.leader_epochs.entries), segments, log.log_start_offset, log.local_log_start_offset
    )
    if log.log_start_offset < start <= log.high_watermark:
        log.advance_log_start_offset_from_remote(start)
