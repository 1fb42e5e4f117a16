"""The records of `__remote_log_metadata` that register restored segments. Pure.

Each segment gets the two records of its copy, with the broker and the times of the manifest. A repeated
restore writes only those that are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.remote.inspection.described_segments import copy_events
from tidelog.remote.inspection.findings import segment_name
from tidelog.remote.inspection.history import PartitionHistory
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tidelog.remote.restore.plan import PartitionPlan

_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_STARTED: Final = RemoteLogSegmentState.COPY_SEGMENT_STARTED


def missing_records(plan: PartitionPlan, history: PartitionHistory) -> Iterator[RemoteLogEvent]:
    """Return the records that `history`, the cluster's metadata of the partition, does not have."""
    for event in copy_events(plan.segments):
        known = history.cache.get(event.remote_log_segment_id)
        if known is None or (known.state is _STARTED and not isinstance(event, RemoteLogSegmentMetadata)):
            yield event


def registration_obstacles(plan: PartitionPlan, history: PartitionHistory) -> Iterator[str]:
    """Return why the segments of `plan` cannot be registered: the cluster has others, or deleted them."""
    name = plan.partition.topic_partition
    if history.deletion is not None:
        yield f"{name}: the cluster is deleting the remote data of this partition"
    planned = {segment.remote_log_segment_id.id for segment in plan.segments}
    for segment in plan.segments:
        known = history.cache.get(segment.remote_log_segment_id)
        deleting = known is not None and known.state not in (_STARTED, _FINISHED)
        if deleting or segment.remote_log_segment_id.id in history.deleted:
            yield f"{name}: the cluster has deleted {segment_name(segment)}"
    for segment in history.cache.segments():
        if segment.state is _FINISHED and segment.remote_log_segment_id.id not in planned:
            yield f"{name}: the cluster has {segment_name(segment)}, which is not restored"
