"""A fast encoder of Produce responses.

It writes the same bytes as `tidelog.protocol.codec` for `tidelog.protocol.messages.produce`, but uses only
one object per partition. Responses with many partitions are encoded in steps (`tidelog.protocol.steps`).

| versions | difference |
|----------|------------|
| 3-8      | int16 and int32 lengths; log start offset from 5, record errors from 8 |
| 9-12     | flexible: varint lengths, tagged fields; current leader from 10 |
| 13       | topics by id instead of by name |

Source: ProduceResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import shortened
from tidelog.protocol.primitives import write_unsigned_varint
from tidelog.protocol.steps import Steps, run_steps
from tidelog.protocol.views.produce_request_view import (
    FIRST_FLEXIBLE_VERSION,
    FIRST_VERSION_WITH_TOPIC_ID,
    PARTITIONS_PER_STEP,
    ProducePartition,
)
from tidelog.protocol.views.response_parts import (
    NodeEndpoint,
    compact_string_field,
    node_endpoints_tags,
    string_field,
    topic_field,
)

FIRST_VERSION_WITH_CURRENT_LEADER: Final = 10

_INT32: Final = struct.Struct(">i")
_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")
_ONE_HEAD: Final = struct.Struct(">iiBB")
_ONE_TAIL: Final = struct.Struct(">BihqqqB3xix")
_ONE_OVERHEAD: Final = _ONE_HEAD.size + _ONE_TAIL.size
_INDEX_ERROR_OFFSETS_2: Final = struct.Struct(">ihqq")
_INDEX_ERROR_OFFSETS_5: Final = struct.Struct(">ihqqq")
_LEADER_TAG: Final = struct.Struct(">BBBiiB")


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
