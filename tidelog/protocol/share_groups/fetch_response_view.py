"""A fast encoder of ShareFetch responses, which does not copy records.

A response is a list of parts, as in `tidelog.protocol.views.fetch_response_view`. All versions (1 and 2) are
flexible and have the same fields.

Source: ShareFetchResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.primitives import write_unsigned_varint
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.fetch_response_view import Records, ResponsePart
from tidelog.protocol.views.response_parts import NodeEndpoint, compact_string_field, node_endpoints_array

_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_THROTTLE_AND_ERROR: Final = struct.Struct(">ih")
_INDEX_AND_ERROR: Final = struct.Struct(">ih")
_LEADER: Final = struct.Struct(">iiB")
_ACQUIRED: Final = struct.Struct(">qqhB")


class AcquiredRange(Protocol):
    """Acquired records with the same delivery count; `last_offset` is inclusive."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def delivery_count(self) -> int: ...


@dataclass(slots=True)
class ShareFetchResult:
    """The result of one partition. `leader` is id and epoch of the leader, if the error names another one."""

    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    leader: tuple[int, int] = (0, 0)
    records: Records | None = None
    acquired: Sequence[AcquiredRange] = ()

    @property
    def records_length(self) -> int:
        """The number of bytes of `records`."""
        if self.records is None:
            return 0
        return len(self.records) if isinstance(self.records, _IN_MEMORY) else self.records.length


_IN_MEMORY: Final = (bytes, bytearray, memoryview)


class TopicResults(NamedTuple):
    """The results of the partitions of a topic, by index."""

    topic_id: UUID
    partitions: Sequence[tuple[int, ShareFetchResult]]


def encode_share_fetch_response(
    correlation_id: int,
    topics: Sequence[TopicResults],
    *,
    throttle_time_ms: int,
    lock_timeout_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> Steps[list[ResponsePart]]:
    """Return the frame of a response without an error, with its size, in parts that are not empty."""
    first = out = bytearray(_SIZE_AND_CORRELATION.size)
    out.append(0)
    out += _THROTTLE_AND_ERROR.pack(throttle_time_ms, 0)
    out += compact_string_field(None)
    out += _INT32.pack(lock_timeout_ms)
    write_unsigned_varint(out, len(topics) + 1)
    parts: list[ResponsePart] = [first]
    size_bytes = 0
    for topic in topics:
        out += topic.topic_id.bytes
        write_unsigned_varint(out, len(topic.partitions) + 1)
        for index, result in topic.partitions:
            length = result.records_length
            _write_before_records(out, index, result, length)
            if length:
                assert result.records is not None
                size_bytes += len(out) + length
                out = bytearray()
                parts += (result.records, out)
            _write_acquired(out, result.acquired)
            yield None
        out.append(0)
    out += node_endpoints_array(node_endpoints)
    out.append(0)
    _SIZE_AND_CORRELATION.pack_into(first, 0, size_bytes + len(out) - 4, correlation_id)
    return parts


def _write_before_records(out: bytearray, index: int, result: ShareFetchResult, length: int) -> None:
    out += _INDEX_AND_ERROR.pack(index, result.error_code)
    out += compact_string_field(result.error_message)
    out += _INT16.pack(result.acknowledge_error_code)
    out += compact_string_field(result.acknowledge_error_message)
    out += _LEADER.pack(*result.leader, 0)
    write_unsigned_varint(out, length + 1)


def _write_acquired(out: bytearray, acquired: Sequence[AcquiredRange]) -> None:
    write_unsigned_varint(out, len(acquired) + 1)
    for one in acquired:
        out += _ACQUIRED.pack(one.first_offset, one.last_offset, one.delivery_count, 0)
    out.append(0)
