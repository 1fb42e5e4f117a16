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
from tidelog.cluster.features import METADATA_VERSION_4_3
from tidelog.cluster.record_versions import record_version, supported_record
from tidelog.protocol.codec import decode, encode_into
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import read_unsigned_varint, write_unsigned_varint
from tidelog.protocol.schema import MetadataRecord

FRAME_VERSION: Final = 1

RECORD_TYPES: Final[Mapping[int, type[MetadataRecord]]] = {
    record_type.record_type: record_type for record_type in replayed_types()
}


def encode_record(record: MetadataRecord, metadata_version: int = METADATA_VERSION_4_3) -> bytes:
    """Return `record` as a value of the metadata log, in the form of a level of metadata.version.

    Fields that the level does not have are omitted.
    """
    record = supported_record(record, metadata_version)
    version = record_version(record, metadata_version)
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
