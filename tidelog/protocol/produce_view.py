"""A fast decoder of Produce requests and encoder of Produce responses.

They accept and write the same bytes as `tidelog.protocol.codec` for `tidelog.protocol.messages.produce`, but
use only one object per partition. Records are views of the request's frame. Requests with many partitions are
decoded, and their responses encoded, in steps (`tidelog.protocol.steps`).

| versions | difference |
|----------|------------|
| 3-8      | int16 and int32 lengths; responses: log start offset from 5, record errors from 8 |
| 9-12     | flexible: varint lengths, tagged fields; responses: current leader from 10 |
| 13       | topics by id instead of by name |

Source: ProduceRequest.json and ProduceResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.protocol.codec import ELEMENTS_MAX
from tidelog.protocol.codec_runtime import read_string_length, read_uuid
from tidelog.protocol.errors import DecodeError, shortened
from tidelog.protocol.primitives import read_unsigned_varint, skip_tagged_fields, write_unsigned_varint
from tidelog.protocol.response_parts import (
    NodeEndpoint,
    compact_string_field,
    node_endpoints_tags,
    string_field,
    topic_field,
)
from tidelog.protocol.steps import Steps, run_steps

FIRST_FLEXIBLE_VERSION: Final = 9
FIRST_VERSION_WITH_CURRENT_LEADER: Final = 10
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

_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")
_ONE_HEAD: Final = struct.Struct(">iiBB")
_ONE_TAIL: Final = struct.Struct(">BihqqqB3xix")
_ONE_OVERHEAD: Final = _ONE_HEAD.size + _ONE_TAIL.size
_INDEX_ERROR_OFFSETS_2: Final = struct.Struct(">ihqq")
_INDEX_ERROR_OFFSETS_5: Final = struct.Struct(">ihqqq")
_LEADER_TAG: Final = struct.Struct(">BBBiiB")


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


@dataclass(slots=True)
class ProducePartitionResult:
    """The result of an append to one partition; -1 means that an offset or a time is unknown."""

    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    """The index in the batch and the error message of each rejected record."""
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None
    """The id and epoch of the leader, for a client that sent its request to another broker."""

    @property
    def is_plain(self) -> bool:
        """Whether no optional field is set."""
        return self.error_message is None and self.current_leader is None and not self.record_errors


ProduceResult: TypeAlias = tuple[ProducePartition, ProducePartitionResult]


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


def encode_produce_response(
    version: int,
    correlation_id: int,
    results: Sequence[ProduceResult],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Return the frame with its size; adjacent results of a topic are encoded as one topic."""
    if len(results) == 1 and version >= FIRST_FLEXIBLE_VERSION and not node_endpoints:
        first = results[0]
        if first[1].is_plain:
            by_id = version >= FIRST_VERSION_WITH_TOPIC_ID
            return _encode_one_plain(first, by_id, correlation_id, throttle_time_ms)
    steps = encode_produce_response_in_steps(
        version, correlation_id, results, throttle_time_ms, node_endpoints
    )
    return bytes(run_steps(steps))


def encode_produce_response_in_steps(
    version: int,
    correlation_id: int,
    results: Sequence[ProduceResult],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> Steps[bytearray]:
    """Return what `encode_produce_response` returns, in steps for many results."""
    flexible = version >= FIRST_FLEXIBLE_VERSION
    by_id = version >= FIRST_VERSION_WITH_TOPIC_ID
    out = bytearray(_SIZE_AND_CORRELATION.size)
    topics = yield from _by_topic(results)
    if flexible:
        out.append(0)
        write_unsigned_varint(out, len(topics) + 1)
    else:
        out += _INT32.pack(len(topics))
    for partitions in topics:
        first = partitions[0][0]
        out += topic_field(first.topic, first.topic_id, flexible=flexible, by_id=by_id)
        if flexible:
            write_unsigned_varint(out, len(partitions) + 1)
        else:
            out += _INT32.pack(len(partitions))
        for start in range(0, len(partitions), PARTITIONS_PER_STEP):
            yield None
            for requested, result in partitions[start : start + PARTITIONS_PER_STEP]:
                if flexible:
                    _write_flexible(out, version, requested.partition, result)
                else:
                    _write_fixed(out, version, requested.partition, result)
                if result.record_errors:
                    yield None
        if flexible:
            out.append(0)
    out += _INT32.pack(throttle_time_ms)
    if flexible:
        out += node_endpoints_tags(node_endpoints if version >= FIRST_VERSION_WITH_CURRENT_LEADER else ())
    _SIZE_AND_CORRELATION.pack_into(out, 0, len(out) - 4, correlation_id)
    return out


def _encode_one_plain(pair: ProduceResult, by_id: bool, correlation_id: int, throttle_time_ms: int) -> bytes:
    """Return the frame of the most frequent response: one partition, no optional fields, flexible."""
    requested, result = pair
    topic = topic_field(requested.topic, requested.topic_id, flexible=True, by_id=by_id)
    tail = _ONE_TAIL.pack(
        2, requested.partition, result.error_code, result.base_offset, result.log_append_time_ms,
        result.log_start_offset, 1, throttle_time_ms,
    )  # fmt: skip
    return _ONE_HEAD.pack(_ONE_OVERHEAD - 4 + len(topic), correlation_id, 0, 2) + topic + tail


def _by_topic(results: Sequence[ProduceResult]) -> Steps[Sequence[Sequence[ProduceResult]]]:
    topics: list[list[ProduceResult]] = []
    previous: str | UUID | None = None
    for number, pair in enumerate(results):
        if number % PARTITIONS_PER_STEP == PARTITIONS_PER_STEP - 1:
            yield None
        topic = pair[0].topic or pair[0].topic_id
        if topics and topic == previous:
            topics[-1].append(pair)
        else:
            topics.append([pair])
            previous = topic
    return topics


def _write_flexible(out: bytearray, version: int, index: int, result: ProducePartitionResult) -> None:
    out += _INDEX_ERROR_OFFSETS_5.pack(
        index, result.error_code, result.base_offset, result.log_append_time_ms, result.log_start_offset
    )
    if result.is_plain:
        out += b"\x01\x00\x00"
        return
    write_unsigned_varint(out, len(result.record_errors) + 1)
    for batch_index, message in result.record_errors:
        out += _INT32.pack(batch_index)
        out += compact_string_field(_text(message))
        out.append(0)
    out += compact_string_field(_text(result.error_message))
    if result.current_leader is None or version < FIRST_VERSION_WITH_CURRENT_LEADER:
        out.append(0)
    else:
        out += _LEADER_TAG.pack(1, 0, 9, *result.current_leader, 0)


def _write_fixed(out: bytearray, version: int, index: int, result: ProducePartitionResult) -> None:
    if version < 5:
        out += _INDEX_ERROR_OFFSETS_2.pack(
            index, result.error_code, result.base_offset, result.log_append_time_ms
        )
        return
    out += _INDEX_ERROR_OFFSETS_5.pack(
        index, result.error_code, result.base_offset, result.log_append_time_ms, result.log_start_offset
    )
    if version >= 8:
        out += _INT32.pack(len(result.record_errors))
        for batch_index, message in result.record_errors:
            out += _INT32.pack(batch_index)
            out += string_field(_text(message))
        out += string_field(_text(result.error_message))


def _text(message: str | None) -> str | None:
    """Return `message`, shortened as it may quote a value of any length; None for None."""
    return None if message is None else shortened(message)
