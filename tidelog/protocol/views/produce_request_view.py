"""A fast decoder of Produce requests.

It accepts the same bytes as `tidelog.protocol.codec` for `tidelog.protocol.messages.produce`, but creates
only one object per partition. Records are views of the request's frame. Requests with many partitions are
decoded in steps (`tidelog.protocol.steps`).

| versions | difference |
|----------|------------|
| 3-8      | int16 and int32 lengths |
| 9-12     | flexible: varint lengths, tagged fields |
| 13       | topics by id instead of by name |

Source: ProduceRequest.json, Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.codec import ELEMENTS_MAX
from tidelog.protocol.codec_runtime import read_string_length, read_uuid
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import read_unsigned_varint, skip_tagged_fields
from tidelog.protocol.steps import Steps

FIRST_FLEXIBLE_VERSION: Final = 9
FIRST_VERSION_WITH_TOPIC_ID: Final = 13

PARTITIONS_PER_STEP: Final = 16
"""The number of partitions that are decoded or encoded in one step."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ACKS_TIMEOUT_COUNT: Final = struct.Struct(">hii")
_ACKS_TIMEOUT_COMPACT_COUNT: Final = struct.Struct(">hiB")
_ID_COMPACT_COUNT: Final = struct.Struct(">16sB")
_INDEX_LENGTH: Final = struct.Struct(">ii")
_INDEX_COMPACT_LENGTH: Final = struct.Struct(">iB")
_NO_TAGGED_FIELDS: Final = memoryview(b"\0\0\0")

# A request for one partition: transactional id, acks, timeout, topics, length of the name | name |
# partitions, index | length of the records, records | no tagged fields, three times.
_ONE_START: Final = struct.Struct(">BhiBB")
_ONE_PARTITION: Final = struct.Struct(">Bi")
_ONE_TAGS_BYTES: Final = 3
_ONE_BYTES_MIN: Final = _ONE_PARTITION.size + 1 + _ONE_TAGS_BYTES


@dataclass(slots=True)
class ProducePartition:
    """The records for one partition.

    `topic_id` is None before version 13, and `topic` is None since then.
    """

    topic: str | None
    topic_id: UUID | None
    partition: int
    records: memoryview | None


@dataclass(slots=True)
class ProduceRequestView:
    """A Produce request; `partitions` is in request order over all topics."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[ProducePartition]


def read_produce_request(body: memoryview, version: int) -> ProduceRequestView | Steps[ProduceRequestView]:
    """Return the request at the start of `body`, or steps that return it if it has many partitions.

    `version` is 3 to 13.
    Errors: DecodeError.
    """
    if FIRST_FLEXIBLE_VERSION <= version < FIRST_VERSION_WITH_TOPIC_ID:
        try:
            one = _read_one(body)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise DecodeError(f"Produce version {version} in {len(body)} bytes: {error}") from error
        if one is not None:
            return one
    steps = _read(body, version)
    try:
        next(steps)
    except StopIteration as end:
        view: ProduceRequestView = end.value
        return view
    return steps


def _read(body: memoryview, version: int) -> Steps[ProduceRequestView]:
    try:
        if version >= FIRST_FLEXIBLE_VERSION:
            view, end = yield from _read_flexible(body, version >= FIRST_VERSION_WITH_TOPIC_ID)
        else:
            view, end = yield from _read_fixed(body)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"Produce version {version} in {len(body)} bytes: {error}") from error
    # Positions only increase and slices end with the buffer, so one comparison checks all lengths.
    # Bytes after the request are ignored, as in Kafka.
    if end > len(body):
        raise DecodeError(f"Produce version {version} ends at {end} of {len(body)} bytes")
    return view


def _read_one(body: memoryview) -> ProduceRequestView | None:
    """Return a request with one partition by topic name and no transaction; None for other requests.

    librdkafka sends such requests. This takes 1.2 us, while `_read_flexible` takes 1.7 us.
    """
    transactional_id, acks, timeout_ms, topics, name_length = _ONE_START.unpack_from(body)
    if transactional_id or topics != 2 or not 1 < name_length < 0x80:
        return None
    name_end = 8 + name_length
    if len(body) < name_end + _ONE_BYTES_MIN:
        return None
    partitions, index = _ONE_PARTITION.unpack_from(body, name_end)
    length, at = read_unsigned_varint(body, name_end + _ONE_PARTITION.size)
    end = at + length - 1
    if partitions != 2 or not length or body[end:] != _NO_TAGGED_FIELDS:
        return None
    partition = ProducePartition(str(body[9:name_end], "utf-8"), None, index, body[at:end])
    return ProduceRequestView(None, acks, timeout_ms, [partition])


def _read_flexible(  # noqa: PLR0912
    body: memoryview, by_id: bool
) -> Steps[tuple[ProduceRequestView, int]]:
    transactional_id: str | None = None
    length = body[0]
    at = 1
    if length:
        transactional_id, at = _string(body, 0)
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COMPACT_COUNT.unpack_from(body, at)
    at += 7
    if not 0 < topic_count < 0x80:
        topic_count, at = _long_count(body, at - 1, "topics")
    partitions: list[ProducePartition] = []
    topic: str | None = None
    topic_id: UUID | None = None
    for number in range(topic_count - 1):
        if number % PARTITIONS_PER_STEP == PARTITIONS_PER_STEP - 1:
            _check_count(number)
            yield None
        if by_id:
            id_bytes, count = _ID_COMPACT_COUNT.unpack_from(body, at)
            topic_id = read_uuid(id_bytes)
            at += 17
        else:
            length = body[at]
            if 0 < length < 0x80:
                topic = str(body[at + 1 : (at := at + length)], "utf-8")
            else:
                topic, at = _string(body, at)
                if topic is None:
                    raise DecodeError("a topic name of a Produce request is null")
            count = body[at]
            at += 1
        if not 0 < count < 0x80:
            count, at = _long_count(body, at - 1, "partitions")
        for _ in range(count - 1):
            index, length = _INDEX_COMPACT_LENGTH.unpack_from(body, at)
            at += 5
            if length > 0x7F:
                length, at = read_unsigned_varint(body, at - 1)
            records = body[at : (at := at + length - 1)] if length else None
            at = skip_tagged_fields(body, at) if body[at] else at + 1
            partitions.append(ProducePartition(topic, topic_id, index, records))
            if not len(partitions) % PARTITIONS_PER_STEP:
                _check_count(len(partitions))
                yield None
        at = skip_tagged_fields(body, at) if body[at] else at + 1
    at = skip_tagged_fields(body, at) if body[at] else at + 1
    return ProduceRequestView(transactional_id, acks, timeout_ms, partitions), at


def _string(body: memoryview, at: int) -> tuple[str | None, int]:
    """Return a nullable compact string of any length, and the position after it."""
    length, at = read_string_length(body, at)
    if length == 0:
        return None, at
    end = at + length - 1
    return str(body[at:end], "utf-8"), end


def _long_count(body: memoryview, at: int, what: str) -> tuple[int, int]:
    """Return the length plus one of a compact array of any length, and the position after it."""
    count, at = read_unsigned_varint(body, at)
    if count == 0:
        raise DecodeError(f"{what} of a Produce request are null")
    return count, at


def _read_fixed(body: memoryview) -> Steps[tuple[ProduceRequestView, int]]:
    length = _INT16.unpack_from(body, 0)[0]
    at = 2
    transactional_id = None
    if length != -1:
        _refuse_negative(length, "a transactional id")
        transactional_id = str(body[at : (at := at + length)], "utf-8")
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(body, at)
    at += 10
    _refuse_negative(topic_count, "topics")
    partitions: list[ProducePartition] = []
    for number in range(topic_count):
        if number % PARTITIONS_PER_STEP == PARTITIONS_PER_STEP - 1:
            _check_count(number)
            yield None
        length = _INT16.unpack_from(body, at)[0]
        at += 2
        _refuse_negative(length, "a topic name")
        topic = str(body[at : (at := at + length)], "utf-8")
        count = _INT32.unpack_from(body, at)[0]
        at += 4
        _refuse_negative(count, "partitions")
        for _ in range(count):
            index, length = _INDEX_LENGTH.unpack_from(body, at)
            at += 8
            records = None
            if length != -1:
                _refuse_negative(length, "records")
                records = body[at : (at := at + length)]
            partitions.append(ProducePartition(topic, None, index, records))
            if not len(partitions) % PARTITIONS_PER_STEP:
                _check_count(len(partitions))
                yield None
    return ProduceRequestView(transactional_id, acks, timeout_ms, partitions), at


def _check_count(count: int) -> None:
    if count > ELEMENTS_MAX:
        raise DecodeError(f"a Produce request has more than {ELEMENTS_MAX} topics or partitions")


def _refuse_negative(length: int, what: str) -> None:
    if length < 0:
        raise DecodeError(f"length {length} of {what} of a Produce request")
