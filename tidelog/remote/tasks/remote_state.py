"""What the tasks of a partition tell its log about remote storage, each time they look."""

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


def note_copied_offset(context: RemoteLogContext, replica: TieredReplica) -> Offset:
    """Tell the log how far it is in remote storage; the last offset that is, -1 when none is.

    Found anew each time and not remembered: the metadata may have heard of another leader's last copy
    after this replica became leader (KAFKA-20732: before that, no retention may count on it).
    Errors: RemoteMetadataNotReady until all that was written before is read; RemoteMetadataError.
    """
    partition, log = replica.topic_id_partition, replica.log
    if not context.metadata.is_ready(partition):
        raise RemoteMetadataNotReady(f"the remote metadata of {partition} is not read yet")
    copied_offset = highest_remote_offset(
        log.leader_epochs,
        log.log_end_offset,
        partial(context.metadata.highest_offset_for_epoch, partition),
    )
    log.note_highest_offset_in_remote_storage(copied_offset)
    return copied_offset


def raise_log_start(replica: TieredReplica, segments: Iterable[RemoteLogSegmentMetadata]) -> None:
    """Let a leader's log start at what can be read, if a former leader deleted what was below."""
    log = replica.log
    start = first_readable_offset(
        EpochLineage(log.leader_epochs.entries), segments, log.log_start_offset, log.local_log_start_offset
    )
    if log.log_start_offset < start <= log.high_watermark:
        log.advance_log_start_offset_from_remote(start)
