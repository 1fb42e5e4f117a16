"""The custom metadata of a copied segment (KIP-917): tagged fields.

    count (unsigned varint), then in the order of tags: tag, size in bytes (unsigned varints), value
    0 remote_size    zigzag 64-bit varint, bytes of all objects
    1 object_prefix  compact string
    2 object_key     compact string, the common path of the keys without prefix and suffix
 1000 source_path    compact string, Tidelog's own: the path of objects that belong to another topic
 1001 mount          compact string, Tidelog's own: the mount in whose bucket these objects are

Objects belong to the topic whose id is in their key. A segment with a source_path refers to objects of
another topic: they are read, and never deleted. Aiven's plugin ignores these two tags: it neither finds nor
deletes the objects, because it computes keys from the topic of the reference.

Source: SegmentCustomMetadataField and -Serde of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import (
    read_unsigned_varint,
    read_varlong,
    write_unsigned_varint,
    write_varlong,
)


class CustomField(IntEnum):
    """A field by its tag; the names are the values of custom.metadata.fields.include."""

    REMOTE_SIZE = 0
    OBJECT_PREFIX = 1
    OBJECT_KEY = 2


_SOURCE_PATH: Final = 1000
_MOUNT: Final = 1001


class CustomMetadata(NamedTuple):
    """The fields; None for a missing field."""

    remote_size: int | None = None
    object_prefix: str | None = None
    object_key: str | None = None
    source_path: str | None = None
    mount: str | None = None


def encode_custom_metadata(metadata: CustomMetadata) -> bytes:
    """Return the bytes of the fields that are present; empty if there are none."""
    values: list[tuple[int, bytes]] = []
    if metadata.remote_size is not None:
        size = bytearray()
        write_varlong(size, metadata.remote_size)
        values.append((CustomField.REMOTE_SIZE, bytes(size)))
    if metadata.object_prefix is not None:
        values.append((CustomField.OBJECT_PREFIX, _compact_string(metadata.object_prefix)))
    if metadata.object_key is not None:
        values.append((CustomField.OBJECT_KEY, _compact_string(metadata.object_key)))
    if metadata.source_path is not None:
        values.append((_SOURCE_PATH, _compact_string(metadata.source_path)))
    if metadata.mount is not None:
        values.append((_MOUNT, _compact_string(metadata.mount)))
    if not values:
        return b""
    out = bytearray()
    write_unsigned_varint(out, len(values))
    for tag, value in values:
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(value))
        out += value
    return bytes(out)


def decode_custom_metadata(data: bytes) -> CustomMetadata:
    """Return the fields in `data` except those with unknown tags. Errors: DecodeError."""
    fields: dict[int, bytes] = {}
    try:
        count, position = read_unsigned_varint(data, 0)
        for _ in range(count):
            tag, position = read_unsigned_varint(data, position)
            size, position = read_unsigned_varint(data, position)
            if position + size > len(data):
                raise DecodeError(f"custom metadata ends within field {tag}: {data.hex()}")
            fields[tag] = data[position : position + size]
            position += size
        remote_size = fields.get(CustomField.REMOTE_SIZE)
        return CustomMetadata(
            None if remote_size is None else read_varlong(remote_size, 0)[0],
            _text(fields.get(CustomField.OBJECT_PREFIX)),
            _text(fields.get(CustomField.OBJECT_KEY)),
            _text(fields.get(_SOURCE_PATH)),
            _text(fields.get(_MOUNT)),
        )
    except (IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"cannot read custom metadata: {data.hex()}") from error


def _compact_string(text: str) -> bytes:
    encoded = text.encode()
    out = bytearray()
    write_unsigned_varint(out, len(encoded) + 1)
    return bytes(out + encoded)


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    length, position = read_unsigned_varint(value, 0)
    if length == 0 or position + length - 1 != len(value):
        raise DecodeError(f"custom metadata has a string of a wrong length: {value.hex()}")
    return value[position:].decode()
