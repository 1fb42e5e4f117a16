"""The encoders of the fields that Produce and Fetch responses have in common: topics and node endpoints.

Encoded topic names are cached, as the same few topics are in most responses.

Source: KIP-482 (flexible versions), KIP-951 (new leaders in responses), KIP-516 (topic ids).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.primitives import write_unsigned_varint

_CACHED_NAMES_MAX: Final = 4096
# The maximum length of a topic name (org.apache.kafka.common.internals.Topic).
_NAME_CHARACTERS_MAX: Final = 249
_STRING_BYTES_MAX: Final = 0x7FFF
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class NodeEndpoint(NamedTuple):
    """The address of a node that is a leader according to the response."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def string_field(text: str | None) -> bytes:
    """Return a nullable string field of a version that is not flexible.

    Errors: ValueError for more than 32767 bytes.
    """
    if text is None:
        return b"\xff\xff"
    data = _string_bytes(text)
    return _INT16.pack(len(data)) + data


def compact_string_field(text: str | None) -> bytes:
    """Return a nullable string field of a flexible version.

    Errors: ValueError for more than 32767 bytes.
    """
    if text is None:
        return b"\0"
    data = _string_bytes(text)
    return varint_field(len(data) + 1) + data


def _string_bytes(text: str) -> bytes:
    data = text.encode()
    if len(data) > _STRING_BYTES_MAX:
        raise ValueError(f"a string of {len(data)} bytes is longer than {_STRING_BYTES_MAX}")
    return data


def varint_field(value: int) -> bytes:
    """Return `value` as an unsigned varint."""
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


def topic_field(topic: str | None, topic_id: UUID | None, *, flexible: bool, by_id: bool) -> bytes:
    """Return the field that identifies a topic in a response: its id if `by_id`, else its name."""
    if by_id:
        assert topic_id is not None, "the response version identifies topics by id"
        return topic_id.bytes
    assert topic is not None, "the response version identifies topics by name"
    if len(topic) > _NAME_CHARACTERS_MAX:
        return compact_string_field(topic) if flexible else string_field(topic)
    return _topic_name_field(topic, flexible)


@lru_cache(_CACHED_NAMES_MAX)
def _topic_name_field(topic: str, flexible: bool) -> bytes:
    return compact_string_field(topic) if flexible else string_field(topic)


def node_endpoints_tags(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the tagged fields at the end of a response: `endpoints` as tag 0, unless they are empty."""
    if not endpoints:
        return b"\0"
    body = node_endpoints_array(endpoints)
    return b"\x01\x00" + varint_field(len(body)) + bytes(body)


def node_endpoints_array(endpoints: Sequence[NodeEndpoint]) -> bytearray:
    """Return `endpoints` as an array of a flexible version."""
    body = bytearray()
    write_unsigned_varint(body, len(endpoints) + 1)
    for endpoint in endpoints:
        body += _INT32.pack(endpoint.node_id)
        body += compact_string_field(endpoint.host)
        body += _INT32.pack(endpoint.port)
        body += compact_string_field(endpoint.rack)
        body.append(0)
    return body
