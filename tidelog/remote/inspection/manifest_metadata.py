"""What a manifest says of its segment: enough to look at a bucket when no broker answers.

Brokers never read this back; it is there for people, and for those who have lost the metadata topic.

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
    """The segment that `manifest` belongs to, as a finished copy. Errors: DecodeError."""
    try:
        fields = json.loads(manifest)
        said = fields["remoteLogSegmentMetadata"]
        size_bytes = int(fields["chunkIndex"]["originalFileSize"])
        epochs = sorted(EpochStart(int(epoch), int(at)) for epoch, at in said["segmentLeaderEpochs"].items())
        start, end = int(said["startOffset"]), int(said["endOffset"])
        if not epochs or end < start:
            raise DecodeError(f"a segment of offsets {start}-{end} and epochs {epochs}")
        return RemoteLogSegmentMetadata(
            _segment_id(said["remoteLogSegmentId"]),
            start,
            end,
            int(said["maxTimestampMs"]),
            int(said["brokerId"]),
            int(said["eventTimestampMs"]),
            size_bytes,
            tuple(epochs),
            RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
            is_txn_index_empty=bool(said.get("txnIdxEmpty", False)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DecodeError(f"not a segment manifest: {type(error).__name__}: {error}") from error


def _segment_id(fields: dict[str, Any]) -> RemoteLogSegmentId:
    said = fields["topicIdPartition"]
    named = said["topicPartition"]
    partition = TopicIdPartition(
        uuid_from_text(said["topicId"]), str(named["topic"]), int(named["partition"])
    )
    return RemoteLogSegmentId(partition, uuid_from_text(fields["id"]))
