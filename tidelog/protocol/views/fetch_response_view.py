"""A fast encoder of Fetch responses, which does not copy records.

A response is a list of parts. The records of a partition are a part of their own, the same object as in the
result, so that the network can send a range of a file without reading it.

| versions | difference |
|----------|------------|
| 4-11     | int16 and int32 lengths; log start offset from 5, session from 7, preferred replica in 11 |
| 12       | flexible: varint lengths; diverging epoch, current leader, snapshot id as tagged fields |
| 13-18    | topics by id; node endpoints as a tagged field from 16 |

Source: FetchResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.protocol.primitives import write_unsigned_varint
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.fetch_request_view import (
    FIRST_FLEXIBLE_VERSION,
    FIRST_VERSION_WITH_TOPIC_ID,
    FetchPartition,
)
from tidelog.protocol.views.response_parts import NodeEndpoint, node_endpoints_tags, topic_field

FIRST_VERSION_WITH_NODE_ENDPOINTS: Final = 16

_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_ERROR_AND_SESSION: Final = struct.Struct(">hi")
_RESULT_4: Final = struct.Struct(">ihqq")
_RESULT_5: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_COMPACT_ABORTED: Final = struct.Struct(">qqB")
_DIVERGING_TAG: Final = struct.Struct(">BBiqB")
_LEADER_TAG: Final = struct.Struct(">BBiiB")
_SNAPSHOT_TAG: Final = struct.Struct(">BBqiB")

_PARTITIONS_PER_STEP: Final = 100
"""The number of partitions that are encoded in one step, which takes about 0.2 ms."""


class AbortedRange(Protocol):
    """An aborted transaction: a producer's records from an offset to its abort marker.

    Consumers with isolation level read_committed skip these records.
    """

    @property
    def producer_id(self) -> int:
        """The producer of the transaction."""

    @property
    def first_offset(self) -> int:
        """The first offset of the transaction."""


class RecordsRange(Protocol):
    """Records that are not in memory, such as a range of a file."""

    @property
    def length(self) -> int:
        """The number of bytes of the records."""


Records: TypeAlias = bytes | bytearray | memoryview | RecordsRange
ResponsePart: TypeAlias = Records


@dataclass(slots=True)
class FetchPartitionResult:
    """The result of a fetch from one partition.

    If `records` is None, the response has no bytes of records. If `aborted_transactions` is None, it has
    null, as for the isolation level read_uncommitted. Tagged fields that are None are omitted.
    """

    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Records | None = None
    aborted_transactions: Sequence[AbortedRange] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """The epoch and end offset at which the follower's log diverges from the leader's."""
    current_leader: tuple[int, int] | None = None
    """The id and epoch of the leader, for a client that sent its request to another broker."""
    snapshot_id: tuple[int, int] | None = None
    """The end offset and epoch of the snapshot that the follower must fetch instead."""

    @property
    def records_length(self) -> int:
        """The number of bytes of `records`."""
        records = self.records
        if records is None:
            return 0
        if isinstance(records, _IN_MEMORY):
            return len(records)
        return records.length


_IN_MEMORY: Final = (bytes, bytearray, memoryview)

FetchResult: TypeAlias = tuple[FetchPartition, FetchPartitionResult]


def encode_fetch_response(
    version: int,
    correlation_id: int,
    results: Sequence[FetchResult],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[ResponsePart]:
    """Return the frame, with its size, in parts that are not empty.

    Adjacent results of a topic are encoded as one topic. Values for which the version has no field are
    omitted.
    """
    topics: list[list[FetchResult]] = []
    _add_by_topic(topics, results)
    first = out = _begin(version, len(topics), throttle_time_ms, error_code, session_id)
    parts: list[ResponsePart] = [first]
    size_bytes = 0
    for partitions in topics:
        _begin_topic(out, version, partitions)
        out, length = _write_partitions(parts, out, version, partitions)
        size_bytes += length
        if version >= FIRST_FLEXIBLE_VERSION:
            out.append(0)
    _end(parts, out, version, node_endpoints)
    _SIZE_AND_CORRELATION.pack_into(first, 0, size_bytes + len(out) - 4, correlation_id)
    return parts


def encode_fetch_response_in_steps(
    version: int,
    correlation_id: int,
    results: Sequence[FetchResult],
    *,
    session_id: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> Steps[list[ResponsePart]]:
    """Return what `encode_fetch_response` returns, in steps for many results."""
    topics: list[list[FetchResult]] = []
    for start in range(0, len(results), _PARTITIONS_PER_STEP):
        _add_by_topic(topics, results[start : start + _PARTITIONS_PER_STEP])
        yield None
    first = out = _begin(version, len(topics), 0, 0, session_id)
    parts: list[ResponsePart] = [first]
    size_bytes = 0
    for partitions in topics:
        _begin_topic(out, version, partitions)
        for start in range(0, len(partitions), _PARTITIONS_PER_STEP):
            some = partitions[start : start + _PARTITIONS_PER_STEP]
            out, length = _write_partitions(parts, out, version, some)
            size_bytes += length
            yield None
        if version >= FIRST_FLEXIBLE_VERSION:
            out.append(0)
    _end(parts, out, version, node_endpoints)
    _SIZE_AND_CORRELATION.pack_into(first, 0, size_bytes + len(out) - 4, correlation_id)
    return parts


def _add_by_topic(topics: list[list[FetchResult]], results: Sequence[FetchResult]) -> None:
    """Add `results` to `topics`; adjacent results of a topic are in one group."""
    previous = topics[-1][-1][0] if topics else None
    for pair in results:
        requested = pair[0]
        if (
            previous is not None
            and previous.topic == requested.topic
            and previous.topic_id == requested.topic_id
        ):
            topics[-1].append(pair)
        else:
            topics.append([pair])
        previous = requested


def _begin(
    version: int, topic_count: int, throttle_time_ms: int, error_code: int, session_id: int
) -> bytearray:
    """Return the first part, up to the count of topics; size and correlation id are written at the end."""
    flexible = version >= FIRST_FLEXIBLE_VERSION
    out = bytearray(_SIZE_AND_CORRELATION.size)
    if flexible:
        out.append(0)
    out += _INT32.pack(throttle_time_ms)
    if version >= 7:
        out += _ERROR_AND_SESSION.pack(error_code, session_id)
    _write_count(out, topic_count, flexible)
    return out


def _begin_topic(out: bytearray, version: int, partitions: Sequence[FetchResult]) -> None:
    flexible = version >= FIRST_FLEXIBLE_VERSION
    first = partitions[0][0]
    by_id = version >= FIRST_VERSION_WITH_TOPIC_ID
    out += topic_field(first.topic, first.topic_id, flexible=flexible, by_id=by_id)
    _write_count(out, len(partitions), flexible)


def _write_partitions(
    parts: list[ResponsePart], out: bytearray, version: int, partitions: Sequence[FetchResult]
) -> tuple[bytearray, int]:
    """Append the results of `partitions`; `out` is the last part.

    Return the new last part, and the total length of the parts that were completed before it.
    """
    flexible = version >= FIRST_FLEXIBLE_VERSION
    size_bytes = 0
    for requested, result in partitions:
        length = result.records_length
        if flexible:
            _write_flexible(out, requested.partition, result, length)
        else:
            _write_fixed(out, version, requested.partition, result, length)
        if length:
            assert result.records is not None
            size_bytes += len(out) + length
            out = bytearray()
            parts += (result.records, out)
        if flexible:
            out += _tagged_fields(result)
    return out, size_bytes


def _end(
    parts: list[ResponsePart], out: bytearray, version: int, node_endpoints: Sequence[NodeEndpoint]
) -> None:
    """Append the fields after the topics; remove the last part, `out`, if it is empty."""
    if version >= FIRST_FLEXIBLE_VERSION:
        out += node_endpoints_tags(node_endpoints if version >= FIRST_VERSION_WITH_NODE_ENDPOINTS else ())
    if not out:
        parts.pop()


def _write_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        write_unsigned_varint(out, count + 1)
    else:
        out += _INT32.pack(count)


def _write_flexible(out: bytearray, index: int, result: FetchPartitionResult, length: int) -> None:
    """Append the fields of a flexible version up to the length of the records."""
    out += _RESULT_5.pack(
        index, result.error_code, result.high_watermark, result.last_stable_offset, result.log_start_offset
    )
    if result.aborted_transactions is None:
        out.append(0)
    else:
        write_unsigned_varint(out, len(result.aborted_transactions) + 1)
        for aborted in result.aborted_transactions:
            out += _COMPACT_ABORTED.pack(aborted.producer_id, aborted.first_offset, 0)
    out += _INT32.pack(result.preferred_read_replica)
    write_unsigned_varint(out, length + 1)


def _tagged_fields(result: FetchPartitionResult) -> bytes | bytearray:
    """Return the tagged fields of one partition, which follow its records."""
    if result.diverging_epoch is None and result.current_leader is None and result.snapshot_id is None:
        return b"\0"
    tags = bytearray(1)
    if result.diverging_epoch is not None:
        tags[0] += 1
        tags += _DIVERGING_TAG.pack(0, 13, *result.diverging_epoch, 0)
    if result.current_leader is not None:
        tags[0] += 1
        tags += _LEADER_TAG.pack(1, 9, *result.current_leader, 0)
    if result.snapshot_id is not None:
        tags[0] += 1
        tags += _SNAPSHOT_TAG.pack(2, 13, *result.snapshot_id, 0)
    return tags


def _write_fixed(out: bytearray, version: int, index: int, result: FetchPartitionResult, length: int) -> None:
    """Append the fields of a version that is not flexible up to the length of the records."""
    out += _RESULT_4.pack(index, result.error_code, result.high_watermark, result.last_stable_offset)
    if version >= 5:
        out += _INT64.pack(result.log_start_offset)
    if result.aborted_transactions is None:
        out += _INT32.pack(-1)
    else:
        out += _INT32.pack(len(result.aborted_transactions))
        for aborted in result.aborted_transactions:
            out += _ABORTED.pack(aborted.producer_id, aborted.first_offset)
    if version >= 11:
        out += _INT32.pack(result.preferred_read_replica)
    out += _INT32.pack(length)
