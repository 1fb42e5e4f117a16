"""Deletion of one remote segment: DELETE_SEGMENT_STARTED, its objects, DELETE_SEGMENT_FINISHED.

Each step may be repeated by any node that finds the segment in DELETE_SEGMENT_STARTED.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tidelog.remote.ports.storage_manager import StoreUnavailable
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoint

_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

_log = logging.getLogger(__name__)


async def delete_segment(context: RemoteLogContext, segment: RemoteLogSegmentMetadata) -> None:
    """Delete `segment` in any state.

    Errors: RemoteMetadataError, and errors of the storage manager.
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
    """Delete the objects of an unfinished copy of this node as far as possible.

    They are deleted even if the metadata cannot be written: no other node knows whether they exist. The
    metadata that remains is a dangling copy, which the leader deletes.
    """
    segment_id = segment.remote_log_segment_id
    is_recorded = True
    try:
        await context.metadata.update_remote_log_segment_metadata(context.update_of(segment, _DELETING))
    except RemoteMetadataError as error:
        is_recorded = False
        _log.info("Cannot record the deletion of the unfinished copy %s: %s", segment_id, error)
    try:
        context.faults(FaultPoint.AFTER_DELETE_STARTED)
        await _delete_objects(context, segment)
        context.faults(FaultPoint.AFTER_DELETE_STORED)
        if is_recorded:
            await context.metadata.update_remote_log_segment_metadata(context.update_of(segment, _DELETED))
            context.faults(FaultPoint.AFTER_DELETE_FINISHED)
    except Exception as error:
        context.undeleted_copies[segment_id.id] = segment
        _log.log(_level(error), "Cannot delete the unfinished copy %s; retrying later: %s", segment_id, error)


async def delete_undeleted_copies(context: RemoteLogContext) -> None:
    """Retry the deletion of the objects of unfinished copies of this node.

    After the first failure, the others wait for the next call, and during an outage for its backoff.
    """
    if context.undeleted_copies and not context.outages.deletions.allows_attempt():
        return
    for segment_id, segment in list(context.undeleted_copies.items()):
        try:
            await _delete_objects(context, segment)
        except Exception as error:
            _log.log(
                _level(error),
                "Cannot delete the objects of the unfinished copy %s; retrying later: %s",
                segment.remote_log_segment_id,
                error,
            )
            # An unavailable store is not called for each of them; the next call starts with another one.
            context.undeleted_copies[segment_id] = context.undeleted_copies.pop(segment_id)
            return
        context.undeleted_copies.pop(segment_id, None)


def _level(error: Exception) -> int:
    """Return the level of the message about a failed deletion: an outage is reported by its observer."""
    return logging.DEBUG if isinstance(error, StoreUnavailable) else logging.WARNING


async def _delete_objects(context: RemoteLogContext, segment: RemoteLogSegmentMetadata) -> None:
    counters = context.figures.topic(segment.topic_id_partition.topic)
    counters.delete_requests += 1
    try:
        await context.run_deletion(context.storage.delete_log_segment_data, segment)
    except Exception:
        counters.delete_errors += 1
        raise


def is_unchanged(context: RemoteLogContext, segment: RemoteLogSegmentMetadata) -> bool:
    """Return whether the metadata still has `segment` in the same state.

    Errors: RemoteMetadataError.
    """
    return context.metadata.segment_state(segment.remote_log_segment_id) is segment.state
