"""The manifest of a segment: the transform of its bytes, and the positions of its chunks and indexes.

    {"version":"1",
     "chunkIndex":{"type":"fixed","originalChunkSize":..,"originalFileSize":..,
                   "transformedChunkSize":..,"finalTransformedChunkSize":..}
                | {"type":"variable","originalChunkSize":..,"originalFileSize":..,
                   "transformedChunks":"<base64>"},
     "segmentIndexes":{"offset":{"position":..,"size":..},"timestamp":..,"producerSnapshot":..,
                       "leaderEpoch":..,"transaction":.. or null},
     "compression":false,
     "encryption":{"dataKey":"<key pair id>:<base64>","aad":"<base64>"},      only if encrypted
     "remoteLogSegmentMetadata":{..}}                                         for humans; never read

Unknown fields are ignored, so that later versions can add fields.

Source: SegmentManifestV1 and its serde in Aiven's RemoteStorageManager, as Jackson writes it under Kafka 4.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import uuid_text
from tidelog.remote.objects.layout.chunk_index import (
    ChunkIndex,
    FixedChunkIndex,
    VariableChunkIndex,
    chunk_count,
)
from tidelog.remote.objects.layout.chunk_sizes import chunk_sizes_from_text, chunk_sizes_text
from tidelog.remote.objects.layout.encryption import DataKey, DecryptError, KeyRing
from tidelog.remote.objects.layout.transform import Transform
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import IndexType

VERSION: Final = "1"
MANIFEST_BYTES_MAX: Final = 32 * 1024 * 1024
"""The maximum size of a manifest; a longer one is rejected before it is read."""

INDEX_ORDER: Final = (
    IndexType.OFFSET,
    IndexType.TIMESTAMP,
    IndexType.PRODUCER_SNAPSHOT,
    IndexType.LEADER_EPOCH,
    IndexType.TRANSACTION,
)
"""The order of the small files in their object."""

_INDEX_FIELDS: Final = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}


class IndexPlace(NamedTuple):
    """The position and the stored size of a small file in the object of indexes, in bytes."""

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class SegmentManifest:
    """The data that is needed to read a segment."""

    chunk_index: ChunkIndex
    indexes: Mapping[IndexType, IndexPlace]
    transform: Transform

    @property
    def index_transform(self) -> Transform:
        """The transform of indexes: they are never compressed."""
        return Transform(data_key=self.transform.data_key)


def place_indexes(sizes: Mapping[IndexType, int]) -> dict[IndexType, IndexPlace]:
    """Return the positions of small files with these stored sizes in the object of indexes."""
    places: dict[IndexType, IndexPlace] = {}
    position = 0
    for index_type in INDEX_ORDER:
        if index_type in sizes:
            places[index_type] = IndexPlace(position, sizes[index_type])
            position += sizes[index_type]
    return places


def encode_manifest(
    manifest: SegmentManifest, metadata: RemoteLogSegmentMetadata, key_ring: KeyRing | None
) -> bytes:
    """Return the bytes of the manifest; `key_ring` is required if the segment is encrypted."""
    fields: dict[str, Any] = {
        "version": VERSION,
        "chunkIndex": _chunk_index_fields(manifest.chunk_index),
        "segmentIndexes": {
            name: place._asdict() if (place := manifest.indexes.get(index_type)) else None
            for index_type, name in _INDEX_FIELDS.items()
        },
        "compression": manifest.transform.compression,
    }
    data_key = manifest.transform.data_key
    if data_key is not None:
        assert key_ring is not None
        aad = base64.b64encode(data_key.aad).decode()
        fields["encryption"] = {"dataKey": key_ring.wrap(data_key.key), "aad": aad}
    fields["remoteLogSegmentMetadata"] = _metadata_fields(metadata)
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode_manifest(data: bytes, key_ring: KeyRing | None) -> SegmentManifest:
    """Return the manifest in `data`.

    Errors: DecodeError, also if the key pair of an encrypted segment is unknown.
    """
    try:
        fields = json.loads(data)
        if str(fields["version"]) != VERSION:
            raise DecodeError(
                f"manifest version {fields['version']!r} is not supported; supported is {VERSION}"
            )
        transform = Transform(_flag(fields["compression"]), _data_key(fields.get("encryption"), key_ring))
        return SegmentManifest(
            _chunk_index(fields["chunkIndex"]), _indexes(fields["segmentIndexes"]), transform
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DecodeError(f"not a segment manifest: {type(error).__name__}: {error}") from error


def _chunk_index_fields(index: ChunkIndex) -> dict[str, Any]:
    sizes = {"originalChunkSize": index.original_chunk_size, "originalFileSize": index.original_file_size}
    if isinstance(index, VariableChunkIndex):
        return {"type": "variable", **sizes, "transformedChunks": chunk_sizes_text(index.transformed_sizes)}
    return {
        "type": "fixed",
        **sizes,
        "transformedChunkSize": index.transformed_chunk_size,
        "finalTransformedChunkSize": index.final_transformed_chunk_size,
    }


def _chunk_index(fields: Mapping[str, Any]) -> ChunkIndex:
    chunk_size, file_size = _size(fields, "originalChunkSize"), _size(fields, "originalFileSize")
    if chunk_size == 0:
        raise DecodeError("the chunk size in the manifest is 0")
    match fields["type"]:
        case "fixed":
            transformed, final = (
                _size(fields, "transformedChunkSize"),
                _size(fields, "finalTransformedChunkSize"),
            )
            return FixedChunkIndex(chunk_size, file_size, transformed, final)
        case "variable":
            sizes = chunk_sizes_from_text(fields["transformedChunks"])
            if len(sizes) != chunk_count(chunk_size, file_size):
                raise DecodeError(
                    f"{len(sizes)} chunks of {chunk_size} bytes do not add up to {file_size} bytes"
                )
            return VariableChunkIndex(chunk_size, file_size, sizes)
    raise DecodeError(
        f"chunk index type {fields['type']!r} is not supported; supported are fixed and variable"
    )


def _indexes(fields: Mapping[str, Any]) -> dict[IndexType, IndexPlace]:
    return {
        index_type: IndexPlace(_size(place, "position"), _size(place, "size"))
        for index_type, name in _INDEX_FIELDS.items()
        if (place := fields.get(name)) is not None
    }


def _data_key(fields: Mapping[str, Any] | None, key_ring: KeyRing | None) -> DataKey | None:
    if fields is None:
        return None
    if key_ring is None:
        pair_id = str(fields["dataKey"]).partition(":")[0]
        raise DecodeError(
            f"the segment is encrypted with key pair {pair_id!r}, but encryption is not enabled"
        )
    try:
        aad = base64.b64decode(fields["aad"], validate=True)
        return DataKey(key_ring.unwrap(fields["dataKey"]), aad)
    except (binascii.Error, DecryptError) as error:
        raise DecodeError(str(error)) from error


def _metadata_fields(metadata: RemoteLogSegmentMetadata) -> dict[str, Any]:
    segment_id = metadata.remote_log_segment_id
    partition = segment_id.topic_id_partition
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": uuid_text(partition.topic_id),
                "topicPartition": {"topic": partition.topic, "partition": partition.partition},
            },
            "id": uuid_text(segment_id.id),
        },
        "startOffset": metadata.start_offset,
        "endOffset": metadata.end_offset,
        "maxTimestampMs": metadata.max_timestamp_ms,
        "brokerId": metadata.broker_id,
        "eventTimestampMs": metadata.event_timestamp_ms,
        "segmentLeaderEpochs": {
            str(entry.epoch): entry.start_offset for entry in metadata.segment_leader_epochs
        },
        "txnIdxEmpty": metadata.is_txn_index_empty,
    }


def _size(fields: Mapping[str, Any], name: str) -> int:
    value = fields[name]
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise DecodeError(f"{name} is {value!r}; expected is a number of bytes below 2**31")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise DecodeError(f"compression is {value!r}; expected is true or false")
    return value
