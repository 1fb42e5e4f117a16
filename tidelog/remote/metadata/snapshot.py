"""The file `remote_log_snapshot`: the remote segments of one partition at one metadata offset.

    version                    int16   0
    metadata partition         int32
    metadata partition offset  int64   the last record of the metadata partition that it includes
    number of entries          int32
    entry, each                int32 length, then a RemoteLogSegmentMetadataSnapshotRecord (`record_codec`)

Finished segments are in the order in which they were finished.

Errors: DecodeError for a damaged file.
Source: RemoteLogMetadataSnapshotFile of Apache Kafka 3.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from struct import Struct
from typing import Final, NamedTuple, Protocol

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.cache import RemoteLogMetadataCache
from tidelog.remote.metadata.record_codec import (
    decode_plain_entry,
    decode_snapshot_entry,
    encode_snapshot_entry,
)
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition

SNAPSHOT_FILE: Final = "remote_log_snapshot"
_HEADER: Final = Struct(">hiqi")
_LENGTH: Final = Struct(">i")
_VERSION: Final = 0


class Segments(Sized, Iterable[RemoteLogSegmentMetadata], Protocol):
    """Segments that can be counted and iterated."""


class PartitionSnapshot(NamedTuple):
    """The content of a snapshot: a cache with its segments."""

    metadata_partition: int
    metadata_offset: Offset
    cache: RemoteLogMetadataCache


def encode_snapshot(segments: Segments, metadata_partition: int, metadata_offset: Offset) -> bytes:
    """Return `segments` and their position in the metadata topic as the content of the file."""
    data = bytearray(_HEADER.pack(_VERSION, metadata_partition, metadata_offset, len(segments)))
    for metadata in segments:
        entry = encode_snapshot_entry(metadata)
        data += _LENGTH.pack(len(entry))
        data += entry
    return bytes(data)


def decode_snapshot(data: bytes, partition: TopicIdPartition) -> PartitionSnapshot:
    """Return the snapshot of `partition` in the content of its file."""
    if len(data) < _HEADER.size:
        raise DecodeError(f"a snapshot of {len(data)} bytes ends within its header")
    version, metadata_partition, metadata_offset, count = _HEADER.unpack_from(data)
    if version != _VERSION or metadata_partition < 0 or metadata_offset < -1:
        raise DecodeError(f"invalid snapshot header {_HEADER.unpack_from(data)}")
    if not 0 <= count <= (len(data) - _HEADER.size) // _LENGTH.size:
        raise DecodeError(f"a snapshot of {len(data)} bytes cannot have {count} entries")
    cache = _restored(data, count, partition)
    return PartitionSnapshot(metadata_partition, metadata_offset, cache)


def _restored(data: bytes, count: int, partition: TopicIdPartition) -> RemoteLogMetadataCache:
    """Return a cache with the `count` segments in `data`.

    No list of the segments is made: the garbage collector would search it as often as it grows.
    """
    cache = RemoteLogMetadataCache(partition)
    cache.reserve(count)
    ids = set[bytes]()
    position = _HEADER.size
    for number in range(count):
        if position + _LENGTH.size > len(data):
            raise DecodeError(f"entry {number} of {count} is missing")
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        end = position + length
        if not position < end <= len(data):
            raise DecodeError(f"entry {number} has {length} bytes, but {len(data) - position} bytes remain")
        plain = decode_plain_entry(data, position, end)
        if plain is not None:
            ids.add(plain.segment_id)
            cache.restore(plain)
        else:
            segment = decode_snapshot_entry(memoryview(data)[position:end], partition)
            ids.add(segment.remote_log_segment_id.id.bytes)
            cache.restore(segment)
        if len(ids) <= number:
            raise DecodeError(f"the snapshot contains the segment of entry {number} twice")
        position = end
    if position != len(data):
        raise DecodeError(f"{len(data) - position} bytes follow the last entry")
    return cache
