"""Deleting one remote segment: DELETE_SEGMENT_STARTED, its objects, DELETE_SEGMENT_FINISHED.

Each step may be taken again by whoever finds the segment in DELETE_SEGMENT_STARTED.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoint

_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

_log = logging.getLogger(__name__)


async def delete_segment(context: RemoteLogContext, segment: RemoteLogSegmentMetadata) -> None:
    """Delete `segment`, whatever state it is in.

    Errors: RemoteMetadataError, and what the storage manager raises.
    """
    segment_id = segment.remote_log_segment_id.id
    context.in_progress.add(segment_id)
    try:
        context.faults(FaultPoint.BEFORE_DELETE_STARTED)
        await context.metadata.update_remote_log_segment_metadata(context.update_of(segment, _DELETING))
        context.faults(FaultPoint.AFTER_DELETE_STARTED)
        await _delete_objects(context, replace(segment, state=_DELETING))
        context.faults(FaultPoint.AFTER_DELETE_STORED)
        await context.metadata.update_remote_log_segment_metadata(context.update_of(segment, _DELETED))
        context.faults(FaultPoint.AFTER_DELETE_FINISHED)
    finally:
        context.in_progress.discard(segment_id)


async def discard_copy(context: RemoteLogContext, segment: RemoteLogSegmentMetadata) -> None:
    """Delete what a copy of this node left that was not finished, as far as that is possible now.

    The objects go even if nobody can be told: no one else knows whether they were written. What is left
    of the metadata is a dangling copy, which the leader deletes when it finds it.
    """
    segment_id = segment.remote_log_segment_id
    is_told = True
    try:
        await context.metadata.update_remote_log_segment_metadata(context.update_of(segment, _DELETING))
    except RemoteMetadataError as error:
        is_told = False
        _log.info("the deletion of the unfinished copy %s is not noted: %s", segment_id, error)
    try:
        context.faults(FaultPoint.AFTER_DELETE_STARTED)
        await _delete_objects(context, segment)
        context.faults(FaultPoint.AFTER_DELETE_STORED)
        if is_told:
            await context.metadata.update_remote_log_segment_metadata(context.update_of(segment, _DELETED))
            context.faults(FaultPoint.AFTER_DELETE_FINISHED)
    except Exception as error:
        context.leftovers[segment_id.id] = segment
        _log.warning(
            "the unfinished copy %s could not be deleted, this is tried again: %s", segment_id, error
        )


async def delete_leftovers(context: RemoteLogContext) -> None:
    """Try again to delete the objects of unfinished copies of this node; errors leave them for next time."""
    for segment_id, segment in list(context.leftovers.items()):
        try:
            await _delete_objects(context, segment)
        except Exception as error:
            _log.warning("what is left of %s stays for now: %s", segment.remote_log_segment_id, error)
            # A store that is away is not asked for each of them; next time another one comes first.
            context.leftovers[segment_id] = context.leftovers.pop(segment_id)
            return
        context.leftovers.pop(segment_id, None)


async def _delete_objects(context: RemoteLogContext, segment: RemoteLogSegmentMetadata) -> None:
    counters = context.figures.topic(segment.topic_id_partition.topic)
    counters.delete_requests += 1
    try:
        await context.run_deletion(context.storage.delete_log_segment_data, segment)
    except Exception:
        counters.delete_errors += 1
        raise


def is_still(context: RemoteLogContext, segment: RemoteLogSegmentMetadata) -> bool:
    """Whether the metadata has `segment` in the state in which it was seen before.

    Errors: RemoteMetadataError.
    """
    epoch = segment.segment_leader_epochs[0].epoch
    listed = context.metadata.list_remote_log_segments(segment.topic_id_partition, epoch)
    return any(
        each.remote_log_segment_id == segment.remote_log_segment_id and each.state is segment.state
        for each in listed
    )
