"""A fast decoder of small OffsetCommit requests, and a fast encoder of their responses.

They use the same bytes as `tidelog.protocol.codec` for `tidelog.protocol.messages.offset_commit`, but create
no messages. Consumers commit few partitions, with short texts and without tagged fields. Only such requests
are read; for all others, malformed ones included, the caller needs the codec.

| versions | difference |
|----------|------------|
| 8-9      | topics by name |
| 10       | topics by id |

Source: OffsetCommitRequest.json and OffsetCommitResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.protocol.codec_runtime import read_uuid
from tidelog.protocol.schema import ZERO_UUID

FIRST_FLEXIBLE_VERSION: Final = 8
FIRST_VERSION_WITH_TOPIC_ID: Final = 10
UUID_BYTES: Final = 16

_INT32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">iqiB")
_PARTITION_BYTES: Final = _PARTITION.size
_RESPONSE_START: Final = struct.Struct(">iiBiB")
_RESULT: Final = struct.Struct(">ihB")
_NO_TAGGED_FIELDS: Final = b"\0"
_LENGTH_END: Final = 0x80
"""A length or count of one byte is below this. It is one higher than the number of bytes or elements."""

CommitPartition: TypeAlias = tuple[int, int, int, str]
"""Index, offset, leader epoch and metadata; null metadata are ""."""


class CommitTopic(NamedTuple):
    """The partitions of one topic.

    `name` is "" from version 10 on, `topic_id` is zero before. `identity` is the field that has the name or
    the id, as bytes.
    """

    name: str
    topic_id: UUID
    identity: bytes
    partitions: list[CommitPartition]


class OffsetCommitRequestView(NamedTuple):
    """A small OffsetCommit request; the fields have the names of the message."""

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: list[CommitTopic]


def read_offset_commit_request(body: memoryview, version: int) -> OffsetCommitRequestView | None:
    """Return the request at the start of `body`; None if it needs the codec.

    `version` is 8 to 10. Bytes after the request are ignored, as by the codec.
    """
    data = bytes(body)
    try:
        view, end = _read(data, version >= FIRST_VERSION_WITH_TOPIC_ID)
    except (IndexError, struct.error, UnicodeDecodeError, _NeedsCodec):
        return None
    # Positions only increase and slices end with the data, so one comparison checks all lengths.
    return view if end <= len(data) else None


class _NeedsCodec(Exception):
    """The request has a long text, many elements, tagged fields, or null where it is not allowed."""


def _read(data: bytes, by_id: bool) -> tuple[OffsetCommitRequestView, int]:
    group_id, at = _text(data, 0)
    generation: int = _INT32.unpack_from(data, at)[0]
    member_id, at = _text(data, at + 4)
    group_instance_id = None
    if data[at]:
        group_instance_id, at = _text(data, at)
    else:
        at += 1
    count, at = _count(data, at)
    topics = []
    for _ in range(count):
        topic, at = _topic(data, at, by_id)
        topics.append(topic)
    if data[at]:
        raise _NeedsCodec
    view = OffsetCommitRequestView(group_id, generation, member_id, group_instance_id, topics)
    return view, at + 1


def _topic(data: bytes, start: int, by_id: bool) -> tuple[CommitTopic, int]:
    name, topic_id = "", ZERO_UUID
    identity_end = start + UUID_BYTES
    if not by_id:
        name, identity_end = _text(data, start)
    count, at = _count(data, identity_end)
    identity = data[start:identity_end]
    if by_id:
        topic_id = read_uuid(identity)
    partitions: list[CommitPartition] = []
    for _ in range(count):
        index, offset, leader_epoch, length = _PARTITION.unpack_from(data, at)
        at += _PARTITION_BYTES
        metadata = ""
        if length > 1:
            if length >= _LENGTH_END:
                raise _NeedsCodec
            metadata = data[at : (at := at + length - 1)].decode()
        if data[at]:
            raise _NeedsCodec
        at += 1
        partitions.append((index, offset, leader_epoch, metadata))
    if data[at]:
        raise _NeedsCodec
    return CommitTopic(name, topic_id, identity, partitions), at + 1


def _text(data: bytes, at: int) -> tuple[str, int]:
    length = data[at]
    if not 0 < length < _LENGTH_END:
        raise _NeedsCodec
    end = at + length
    return data[at + 1 : end].decode(), end


def _count(data: bytes, at: int) -> tuple[int, int]:
    count = data[at]
    if not 0 < count < _LENGTH_END:
        raise _NeedsCodec
    return count - 1, at + 1


def encode_offset_commit_response(
    correlation_id: int, topics: list[CommitTopic], error_code: int, throttle_time_ms: int
) -> bytes:
    """Return the frame with its size; every partition has the same `error_code`."""
    parts = [b""]
    for topic in topics:
        partitions = topic.partitions
        parts += (topic.identity, bytes((len(partitions) + 1,)))
        parts += [_RESULT.pack(partition[0], error_code, 0) for partition in partitions]
        parts.append(_NO_TAGGED_FIELDS)
    parts.append(_NO_TAGGED_FIELDS)
    size = _RESPONSE_START.size - 4 + sum(map(len, parts))
    parts[0] = _RESPONSE_START.pack(size, correlation_id, 0, throttle_time_ms, len(topics) + 1)
    return b"".join(parts)
