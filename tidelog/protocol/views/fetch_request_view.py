"""A fast decoder of Fetch requests.

It accepts the same bytes as `tidelog.protocol.codec` for `tidelog.protocol.messages.fetch`, but creates only
one object per partition.

| versions | difference |
|----------|------------|
| 4-11     | int16, int32 lengths; log start offset from 5, session from 7, leader epoch from 9, rack in 11 |
| 12-14    | flexible: varint lengths, tagged fields; last fetched epoch; topics by id from 13 |
| 15-18    | replica id and epoch as a tagged field; directory id from 17, high watermark in 18 |

Source: FetchRequest.json, Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.codec import decode_in_steps
from tidelog.protocol.codec_runtime import read_string_length, read_uuid
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.primitives import read_tag_count, read_unsigned_varint, skip_tagged_fields
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import Steps

FIRST_FLEXIBLE_VERSION: Final = 12
FIRST_VERSION_WITH_TOPIC_ID: Final = 13
FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
FIRST_VERSION_WITH_DIRECTORY_ID: Final = 17
FIRST_VERSION_WITH_HIGH_WATERMARK: Final = 18

UNKNOWN_HIGH_WATERMARK: Final = 0x7FFFFFFFFFFFFFFF
"""The high watermark in requests of followers that do not know it, and of consumers."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_REPLICA: Final = struct.Struct(">iq")
_WAIT_AND_BYTES: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_PARTITION_4: Final = struct.Struct(">iqi")
_PARTITION_5: Final = struct.Struct(">iqqi")
_PARTITION_9: Final = struct.Struct(">iiqqi")
_PARTITION_12: Final = struct.Struct(">iiqiqiB")

_PARTITIONS_PER_STEP: Final = 100
"""The number of partitions that are converted in one step, which takes about 0.1 ms."""


@dataclass(slots=True)
class FetchPartition:
    """The position to fetch from in one partition.

    `topic_id` is None before version 13, and `topic` is None since then.
    """

    topic: str | None
    topic_id: UUID | None
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: UUID = ZERO_UUID
    high_watermark: int = UNKNOWN_HIGH_WATERMARK


@dataclass(slots=True)
class FetchRequestView:
    """A Fetch request.

    `partitions` and `forgotten`, the partitions to remove from the fetch session, are in request order over
    all topics.
    """

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: list[FetchPartition]
    forgotten: list[tuple[str | UUID, int]]
    rack_id: str
    cluster_id: str | None


def read_fetch_request(body: memoryview, version: int) -> FetchRequestView:
    """Return the request at the start of `body`; `version` is 4 to 18.

    Errors: DecodeError.
    """
    try:
        if version >= FIRST_FLEXIBLE_VERSION:
            view, end = _read_flexible(body, version)
        else:
            view, end = _read_fixed(body, version)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"Fetch version {version} in {len(body)} bytes: {error}") from error
    # Positions only increase and slices end with the buffer, so one comparison checks all lengths.
    # Bytes after the request are ignored, as in Kafka.
    if end > len(body):
        raise DecodeError(f"Fetch version {version} ends at {end} of {len(body)} bytes")
    return view


def read_fetch_request_in_steps(body: memoryview, version: int) -> Steps[FetchRequestView]:
    """Return what `read_fetch_request` returns, in steps for a request of many partitions.

    `body` must not change until the end.
    Errors: DecodeError.
    """
    request = yield from decode_in_steps(FetchRequest, body, version)
    by_id = version >= FIRST_VERSION_WITH_TOPIC_ID
    replica_id, replica_epoch = request.replica_id, -1
    if version >= FIRST_VERSION_WITH_REPLICA_STATE:
        replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    partitions: list[FetchPartition] = []
    for topic in request.topics:
        name, topic_id = (None, topic.topic_id) if by_id else (topic.topic, None)
        for start in range(0, len(topic.partitions), _PARTITIONS_PER_STEP):
            yield None
            partitions += [
                FetchPartition(
                    name,
                    topic_id,
                    each.partition,
                    each.current_leader_epoch,
                    each.fetch_offset,
                    each.last_fetched_epoch,
                    each.log_start_offset,
                    each.partition_max_bytes,
                    each.replica_directory_id,
                    each.high_watermark,
                )
                for each in topic.partitions[start : start + _PARTITIONS_PER_STEP]
            ]
    forgotten: list[tuple[str | UUID, int]] = []
    for forgotten_topic in request.forgotten_topics_data:
        key = forgotten_topic.topic_id if by_id else forgotten_topic.topic
        forgotten += [(key, index) for index in forgotten_topic.partitions]
        yield None
    return FetchRequestView(
        replica_id, replica_epoch, request.max_wait_ms, request.min_bytes, request.max_bytes,
        request.isolation_level, request.session_id, request.session_epoch, partitions, forgotten,
        request.rack_id, request.cluster_id,
    )  # fmt: skip


def _read_flexible(body: memoryview, version: int) -> tuple[FetchRequestView, int]:
    by_id = version >= FIRST_VERSION_WITH_TOPIC_ID
    at = 0
    replica_id = -1
    if version < FIRST_VERSION_WITH_REPLICA_STATE:
        replica_id = _INT32.unpack_from(body, 0)[0]
        at = 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _WAIT_AND_BYTES.unpack_from(body, at)
    session_id, session_epoch = _SESSION.unpack_from(body, at + 13)
    at += 21
    partitions: list[FetchPartition] = []
    topic_count, at = _count(body, at, "topics")
    for _ in range(topic_count):
        topic, topic_id, at = _topic(body, at, by_id)
        count, at = _count(body, at, "partitions")
        for _ in range(count):
            index, leader_epoch, offset, last_epoch, start_offset, max_partition_bytes, tags = (
                _PARTITION_12.unpack_from(body, at)
            )
            at += 33
            partition = FetchPartition(
                topic, topic_id, index, leader_epoch, offset, last_epoch, start_offset, max_partition_bytes
            )
            partitions.append(partition)
            if tags:
                at = _read_partition_tags(body, at - 1, version, partition)
        at = skip_tagged_fields(body, at) if body[at] else at + 1
    forgotten: list[tuple[str | UUID, int]] = []
    topic_count, at = _count(body, at, "forgotten topics")
    for _ in range(topic_count):
        topic, topic_id, at = _topic(body, at, by_id)
        count, at = _count(body, at, "forgotten partitions")
        at = _read_forgotten(body, at, topic if topic_id is None else topic_id, count, forgotten)
        at = skip_tagged_fields(body, at) if body[at] else at + 1
    rack_id, at = _string(body, at)
    view = FetchRequestView(
        replica_id, -1, max_wait_ms, min_bytes, max_bytes, isolation_level,
        session_id, session_epoch, partitions, forgotten, rack_id, None,
    )  # fmt: skip
    at = _read_request_tags(body, at, version, view) if body[at] else at + 1
    return view, at


def _count(body: memoryview, at: int, what: str) -> tuple[int, int]:
    """Return the length of a compact array that cannot be null, and the position after it."""
    count = body[at]
    at += 1
    if count > 0x7F:
        count, at = read_unsigned_varint(body, at - 1)
    if count == 0:
        raise DecodeError(f"{what} of a Fetch request are null")
    return count - 1, at


def _string(body: memoryview, at: int) -> tuple[str, int]:
    """Return a compact string that cannot be null, and the position after it."""
    text, at = _nullable_string(body, at)
    if text is None:
        raise DecodeError("a string of a Fetch request is null")
    return text, at


def _nullable_string(body: memoryview, at: int) -> tuple[str | None, int]:
    """Return a compact string, and the position after it."""
    length = body[at]
    at += 1
    if length > 0x7F:
        # The length may still be 0, as a varint 0 can have more than one byte.
        length, at = read_string_length(body, at - 1)
    if length == 0:
        return None, at
    end = at + length - 1
    return str(body[at:end], "utf-8"), end


def _topic(body: memoryview, at: int, by_id: bool) -> tuple[str | None, UUID | None, int]:
    if not by_id:
        topic, at = _string(body, at)
        return topic, None, at
    end = at + 16
    if end > len(body):
        raise DecodeError("a Fetch request ends within a topic id")
    return None, read_uuid(bytes(body[at:end])), end


def _read_forgotten(
    body: memoryview, at: int, topic: str | UUID | None, count: int, forgotten: list[tuple[str | UUID, int]]
) -> int:
    assert topic is not None
    end = at + count * 4
    if end > len(body):
        raise DecodeError(f"{count} forgotten partitions in {len(body) - at} bytes")
    forgotten.extend((topic, index) for (index,) in _INT32.iter_unpack(body[at:end]))
    return end


def _read_partition_tags(body: memoryview, at: int, version: int, partition: FetchPartition) -> int:
    count, at = read_tag_count(body, at)
    for _ in range(count):
        tag, at = read_unsigned_varint(body, at)
        size, at = read_unsigned_varint(body, at)
        if tag == 0 and version >= FIRST_VERSION_WITH_DIRECTORY_ID:
            _check_tag(body, at, "replica directory id", size, 16)
            partition.replica_directory_id = read_uuid(bytes(body[at : at + 16]))
        elif tag == 1 and version >= FIRST_VERSION_WITH_HIGH_WATERMARK:
            _check_tag(body, at, "high watermark", size, 8)
            partition.high_watermark = _INT64.unpack_from(body, at)[0]
        at += size
    return at


def _check_tag(body: memoryview, at: int, what: str, size: int, expected: int) -> None:
    if size != expected or at + size > len(body):
        raise DecodeError(f"{what} of a Fetch request: {size} bytes at {at} of {len(body)}, not {expected}")


def _read_request_tags(body: memoryview, at: int, version: int, view: FetchRequestView) -> int:
    count, at = read_tag_count(body, at)
    for _ in range(count):
        tag, at = read_unsigned_varint(body, at)
        size, at = read_unsigned_varint(body, at)
        end = at + size
        if tag == 0:
            view.cluster_id, at = _nullable_string(body, at)
        elif tag == 1 and version >= FIRST_VERSION_WITH_REPLICA_STATE:
            view.replica_id, view.replica_epoch = _REPLICA.unpack_from(body, at)
            at = skip_tagged_fields(body, at + _REPLICA.size)
        else:
            at = end
        if at != end:
            raise DecodeError(
                f"tagged field {tag} of a Fetch request ends at {at}, but its stated end is {end}"
            )
    return at


def _read_fixed(body: memoryview, version: int) -> tuple[FetchRequestView, int]:
    replica_id = _INT32.unpack_from(body, 0)[0]
    max_wait_ms, min_bytes, max_bytes, isolation_level = _WAIT_AND_BYTES.unpack_from(body, 4)
    at = 17
    session_id, session_epoch = 0, -1
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(body, at)
        at += 8
    partitions: list[FetchPartition] = []
    topic_count, at = _fixed_count(body, at, "topics")
    for _ in range(topic_count):
        topic, at = _fixed_string(body, at)
        count, at = _fixed_count(body, at, "partitions")
        for _ in range(count):
            at = _read_fixed_partition(body, at, version, topic, partitions)
    forgotten: list[tuple[str | UUID, int]] = []
    if version >= 7:
        topic_count, at = _fixed_count(body, at, "forgotten topics")
        for _ in range(topic_count):
            topic, at = _fixed_string(body, at)
            count, at = _fixed_count(body, at, "forgotten partitions")
            at = _read_forgotten(body, at, topic, count, forgotten)
    rack_id = ""
    if version >= 11:
        rack_id, at = _fixed_string(body, at)
    view = FetchRequestView(
        replica_id, -1, max_wait_ms, min_bytes, max_bytes, isolation_level,
        session_id, session_epoch, partitions, forgotten, rack_id, None,
    )  # fmt: skip
    return view, at


def _read_fixed_partition(
    body: memoryview, at: int, version: int, topic: str, partitions: list[FetchPartition]
) -> int:
    leader_epoch = log_start_offset = -1
    if version >= 9:
        layout = _PARTITION_9
        index, leader_epoch, offset, log_start_offset, max_bytes = layout.unpack_from(body, at)
    elif version >= 5:
        layout = _PARTITION_5
        index, offset, log_start_offset, max_bytes = layout.unpack_from(body, at)
    else:
        layout = _PARTITION_4
        index, offset, max_bytes = layout.unpack_from(body, at)
    partitions.append(
        FetchPartition(topic, None, index, leader_epoch, offset, -1, log_start_offset, max_bytes)
    )
    return at + layout.size


def _fixed_count(body: memoryview, at: int, what: str) -> tuple[int, int]:
    count = _INT32.unpack_from(body, at)[0]
    if count < 0:
        raise DecodeError(f"count {count} of {what} of a Fetch request")
    return count, at + 4


def _fixed_string(body: memoryview, at: int) -> tuple[str, int]:
    length = _INT16.unpack_from(body, at)[0]
    if length < 0:
        raise DecodeError(f"length {length} of a string of a Fetch request")
    end = at + 2 + length
    return str(body[at + 2 : end], "utf-8"), end
