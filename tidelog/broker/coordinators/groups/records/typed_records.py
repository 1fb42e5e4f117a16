"""Encodes and decodes the records of groups whose keys and values have a message type for each record type.

Key and value both begin with an int16: the type of the key, the version of the value. All values have
version 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from tidelog.broker.coordinators.shared.record_versions import PREFIX, split_version
from tidelog.protocol.codec import decode_prefix, encode, encode_in_steps
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.schema import Message
from tidelog.protocol.steps import Steps

KeyT = TypeVar("KeyT", bound=Message)
ValueT = TypeVar("ValueT", bound=Message)

_VALUE_VERSION: Final = 0


class TypedRecords(Generic[KeyT, ValueT]):
    """The record types of one kind of group: for each number the types of key and value."""

    def __init__(self, types: Mapping[int, tuple[type[KeyT], type[ValueT]]]) -> None:
        self._types = types
        self._numbers = {key_class: number for number, (key_class, _) in types.items()}

    def __contains__(self, key_type: int) -> bool:
        """Return whether a record with this key type belongs to this kind of group."""
        return key_type in self._types

    def encode(self, key: KeyT, value: ValueT | None) -> tuple[bytes, bytes | None]:
        """Return key and value in the format of the log."""
        encoded_key = PREFIX.pack(self._numbers[type(key)]) + encode(key, 0)
        if value is None:
            return encoded_key, None
        return encoded_key, PREFIX.pack(_VALUE_VERSION) + encode(value, _VALUE_VERSION)

    def decode(self, key_type: int, key: memoryview, value: bytes | None) -> tuple[KeyT, ValueT | None]:
        """Return key and value. `key` is without its type. Raise DecodeError for an invalid record."""
        key_class, value_class = self._types[key_type]
        decoded_key = decode_prefix(key_class, key, 0, 0)[0]
        if value is None:
            return decoded_key, None
        version, body = split_version(value, "value")
        if version != _VALUE_VERSION:
            raise DecodeError(f"{value_class.__name__} has version {version}, which is not supported")
        return decoded_key, decode_prefix(value_class, body, version, 0)[0]


def encode_value_in_steps(value: Message) -> Steps[bytes]:
    """Return a value in the format of the log."""
    encoded = bytearray(PREFIX.pack(_VALUE_VERSION))
    yield from encode_in_steps(value, _VALUE_VERSION, encoded)
    return bytes(encoded)
