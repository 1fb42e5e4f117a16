"""Request frames as attackers send them: any padding, any header."""

from __future__ import annotations

import struct
from typing import Final

from tidelog.protocol.codec import encode
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.primitives import write_unsigned_varint
from tidelog.protocol.registry import request_header_version
from tidelog.protocol.schema import ApiMessage

FOREVER_MS: Final = 2**31 - 1
"""The maximum wait that a request can have, 24.8 days."""
PADDING_TAG: Final = 9_999

_HEADER: Final = struct.Struct(">hhih")


def request_frame(
    request: ApiMessage,
    version: int,
    client_id: str = "hostile",
    padding: bytes = b"",
    correlation_id: int = 1,
) -> bytes:
    """Return a complete frame; `padding` is an unknown tagged field of the header, if the version has any."""
    key = request.api_key
    name = client_id.encode()
    frame = bytearray(_HEADER.pack(key, version, correlation_id, len(name)) + name)
    if request_header_version(key, version) > 1:
        frame += tagged_field(padding) if padding else b"\0"
    frame += encode(request, version)
    return prefix_with_size(bytes(frame))


def produce_frame(topic: str, records: bytes, partition: int = 0) -> bytes:
    """Return the frame of a Produce that writes `records` to one partition with acks=1."""
    data = (PartitionProduceData(index=partition, records=records),)
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    return request_frame(request, 9)


def tagged_field(data: bytes) -> bytes:
    """Return a section of tagged fields with one field that no version knows."""
    section = bytearray(b"\x01")
    write_unsigned_varint(section, PADDING_TAG)
    write_unsigned_varint(section, len(data))
    return bytes(section) + data


def prefix_with_size(frame: bytes) -> bytes:
    """Return the frame with its size in front."""
    return struct.pack(">i", len(frame)) + frame
