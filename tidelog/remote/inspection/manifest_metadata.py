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
    EpochStart,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)


def described_segment(manifest: bytes) -> RemoteLogSegmentMetadata:
    """Return the segment of `manifest`, as a finished copy. Errors: DecodeError."""
    try:
        fields = json.loads(manifest)
        described = fields["remoteLogSegmentMetadata"]
        size_bytes = int(fields["chunkIndex"]["originalFileSize"])
        epochs = sorted(
            EpochStart(int(epoch), int(at)) for epoch, at in described["segmentLeaderEpochs"].items()
        )
        start, end = int(described["startOffset"]), int(described["endOffset"])
        if not epochs or end < start:
            raise DecodeError(f"invalid segment with offsets {start}-{end} and epochs {epochs}")
        return RemoteLogSegmentMetadata(
            _segment_id(described["remoteLogSegmentId"]),
            start,
            end,
            int(described["maxTimestampMs"]),
            int(described["brokerId"]),
            int(described["eventTimestampMs"]),
            size_bytes,
            tuple(epochs),
            RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
            is_txn_index_empty=bool(described.get("txnIdxEmpty", False)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DecodeError(f"not a segment manifest: {type(error).__name__}: {error}") from error


def _segment_id(fields: dict[str, Any]) -> RemoteLogSegmentId:
    described = fields["topicIdPartition"]
    topic_partition = described["topicPartition"]
    partition = TopicIdPartition(
        uuid_from_text(described["topicId"]), str(topic_partition["topic"]), int(topic_partition["partition"])
    )
    return RemoteLogSegmentId(partition, uuid_from_text(fields["id"]))
