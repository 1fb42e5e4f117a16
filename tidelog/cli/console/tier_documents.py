"""What the object store has of a topic: leader epochs, copies and deletions in progress, objects and bytes.

The records of `__remote_log_metadata` are read once, and then only what is new. The user of the console
needs the right to read this topic.

Bounds: TOPICS_MAX topics are kept, about 70 bytes for each of their segments; the newest EPOCHS_SHOWN epochs
and SEGMENTS_SHOWN copies and deletions of a partition are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidelog.base.bounded_lru import BoundedLru
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.direct.metadata_tier import MetadataTier
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState

TOPICS_MAX: Final = 4
EPOCHS_SHOWN: Final = 100
SEGMENTS_SHOWN: Final = 20
OBJECTS_OF_A_SEGMENT: Final = 3
"""The log, the indexes and the manifest."""
_NO_TIME: Final = 0
"""Topics do not expire."""


class TierReader:
    """Reads the tier of topics, one topic at a time."""

    def __init__(self, admin: Admin, reader_options: Mapping[str, Any]) -> None:
        self._admin = admin
        self._reader_options = reader_options
        self._topics: BoundedLru[str, MetadataTier] = BoundedLru(TOPICS_MAX, None)
        self._lock = asyncio.Lock()

    async def document(self, topic: str, partitions: Sequence[int]) -> dict[str, Any]:
        """Return the tier of the partitions of a topic. Errors: KafkaError."""
        async with self._lock:
            tier = self._topics.get(topic, _NO_TIME)
            if tier is None:
                tier = MetadataTier(self._admin, self._reader_options)
                self._topics.put(topic, tier, 1, _NO_TIME)
            tiers = await tier.tiers([TopicPartition(topic, number) for number in partitions])
        documents = [partition_document(name.partition, found) for name, found in sorted(tiers.items())]
        return {
            "partitions": documents,
            "segments": sum(each["segments"] for each in documents),
            "objects": sum(each["objects"] for each in documents),
            "size_bytes": sum(each["size_bytes"] for each in documents),
        }


def partition_document(partition: int, tier: PartitionTier) -> dict[str, Any]:
    """Return the leader epochs and the segments of one partition."""
    segments = list(tier.metadata.list_remote_log_segments(tier.partition))
    stored = [segment for segment in segments if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
    copies = [segment for segment in segments if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED]
    deletions = [
        segment for segment in segments if segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED
    ]
    return {
        "partition": partition,
        "leader_epochs": [
            {"leader_epoch": entry.epoch, "start_offset": entry.start_offset}
            for entry in tier.lineage[-EPOCHS_SHOWN:]
        ],
        "segments": len(stored),
        "objects": OBJECTS_OF_A_SEGMENT * len(stored),
        "size_bytes": sum(segment.segment_size_bytes for segment in stored),
        "copies": [_segment_document(segment) for segment in copies[:SEGMENTS_SHOWN]],
        "deletions": [_segment_document(segment) for segment in deletions[:SEGMENTS_SHOWN]],
        "copy_count": len(copies),
        "deletion_count": len(deletions),
    }


def _segment_document(segment: RemoteLogSegmentMetadata) -> dict[str, Any]:
    return {
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "size_bytes": segment.segment_size_bytes,
        "broker": segment.broker_id,
        "since_ms": segment.event_timestamp_ms,
    }
