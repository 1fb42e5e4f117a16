"""The segment that a manifest describes: enough to inspect a bucket without a broker.

Brokers never read these fields; they are for humans, and for the loss of the metadata topic.

Source: SegmentManifestV1 of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

import json
from typing import Any

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import uuid_from_text
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.storage.leader_epoch import EpochEntry


def described_segment(manifest: bytes) -> RemoteLogSegmentMetadata:
    """Return the segment of `manifest`, as a finished copy. Errors: DecodeError."""
    try:
        fields = json.loads(manifest)
        metadata = fields["remoteLogSegmentMetadata"]
        size_bytes = int(fields["chunkIndex"]["originalFileSize"])
        epochs = sorted(
            EpochEntry(int(epoch), int(start_offset))
            for epoch, start_offset in metadata["segmentLeaderEpochs"].items()
        )
        start, end = int(metadata["startOffset"]), int(metadata["endOffset"])
        if not epochs or end < start:
            raise DecodeError(f"invalid segment with offsets {start}-{end} and epochs {epochs}")
        return RemoteLogSegmentMetadata(
            _segment_id(metadata["remoteLogSegmentId"]),
            start,
            end,
            int(metadata["maxTimestampMs"]),
            int(metadata["brokerId"]),
            int(metadata["eventTimestampMs"]),
            size_bytes,
            tuple(epochs),
            RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
            is_txn_index_empty=bool(metadata.get("txnIdxEmpty", False)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DecodeError(f"not a segment manifest: {type(error).__name__}: {error}") from error


def _segment_id(fields: dict[str, Any]) -> RemoteLogSegmentId:
    partition_fields = fields["topicIdPartition"]
    topic_partition = partition_fields["topicPartition"]
    partition = TopicIdPartition(
        uuid_from_text(partition_fields["topicId"]),
        str(topic_partition["topic"]),
        int(topic_partition["partition"]),
    )
    return RemoteLogSegmentId(partition, uuid_from_text(fields["id"]))
