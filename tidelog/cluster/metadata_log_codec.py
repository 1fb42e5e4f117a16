"""The encoding of metadata records in the values of `__cluster_metadata`.

    frame version  varint   1
    record type    varint   number of the record's schema
    record version varint   version of the schema
    message                 the record in that version

Numbers are unsigned varints. Keys of metadata records are null.

Errors: DecodeError for invalid bytes, and for unknown record types and versions.
Source: org.apache.kafka.server.common.serialization.AbstractApiMessageSerde of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.cluster.delta import replayed_types
from tidelog.protocol.codec import decode, encode_into
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import read_unsigned_varint, write_unsigned_varint
from tidelog.protocol.schema import MetadataRecord

FRAME_VERSION: Final = 1

RECORD_TYPES: Final[Mapping[int, type[MetadataRecord]]] = {
    record_type.record_type: record_type for record_type in replayed_types()
}


def record_version(record_type: type[MetadataRecord]) -> int:
    """Return the version for writing records of this type: the newest, as metadata.version 4.3 requires."""
    highest = record_type.valid_versions.highest
    assert highest is not None
    return highest


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """Return `record` as a value of the metadata log; `version` is None for the newest version."""
    if version is None:
        version = record_version(type(record))
    value = bytearray()
    for number in (FRAME_VERSION, record.record_type, version):
        write_unsigned_varint(value, number)
    encode_into(record, version, value)
    return bytes(value)


def decode_record(value: bytes | memoryview) -> MetadataRecord:
    """Return the record in a value of the metadata log."""
    try:
        return _decode_record(value)
    except IndexError:
        raise DecodeError(f"metadata record of {len(value)} bytes ends in its header") from None


def _decode_record(value: bytes | memoryview) -> MetadataRecord:
    frame_version, position = read_unsigned_varint(value, 0)
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"metadata record frame version is {frame_version}, must be {FRAME_VERSION}")
    number, position = read_unsigned_varint(value, position)
    version, position = read_unsigned_varint(value, position)
    record_type = RECORD_TYPES.get(number)
    if record_type is None:
        raise DecodeError(f"unknown metadata record type {number}")
    if version not in record_type.valid_versions:
        raise DecodeError(
            f"version {version} of {record_type.__name__} is not in {record_type.valid_versions}"
        )
    return decode(record_type, value[position:], version)
