"""The format of values that serializers with a Schema Registry write. Pure.

    1 byte   0
    4 bytes  id of the schema, big endian
    path     Protobuf only: the path to the type of the message in the file of the schema, as zigzag varints:
             the length of the path, then an index for each level; the path [0] is a single 0
    payload

Source: "Wire format" in Confluent's documentation of the Schema Registry.
"""

from __future__ import annotations

from typing import Final

MAGIC: Final = 0
HEADER_BYTES: Final = 5
PATH_LENGTH_MAX: Final = 32
_VARINT_BYTES_MAX: Final = 5


def schema_id(data: bytes) -> int | None:
    """Return the id of the schema of a value; None if the value has none."""
    if len(data) < HEADER_BYTES or data[0] != MAGIC:
        return None
    return int.from_bytes(data[1:HEADER_BYTES], "big")


def message_path(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the path to a message's type, and the position of the payload. Errors: ValueError."""
    length, position = _zigzag(data, HEADER_BYTES)
    if length == 0:
        return (0,), position
    if not 0 < length <= PATH_LENGTH_MAX:
        raise ValueError(f"a path of {length} indexes: allowed are 1 to {PATH_LENGTH_MAX}")
    path = []
    for _ in range(length):
        index, position = _zigzag(data, position)
        path.append(index)
    return tuple(path), position


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for count in range(_VARINT_BYTES_MAX):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
    raise ValueError("an index of the message's type is incomplete")
