"""A decoder that interprets the declarations: slow, short, and independent of generated code.

Tests compare the generated decoders with it: for the same bytes both return the same message, or both raise
DecodeError.
"""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from tests.support.messages.random_messages import DeclaredField, declared_fields
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.schema import (
    Array,
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Kind,
    Message,
    Nested,
    Records,
    String,
    Struct,
    UInt16,
    UInt32,
    Uuid,
)

FIXED: dict[type[Kind], str] = {
    Bool: ">?",
    Int8: ">b",
    Int16: ">h",
    UInt16: ">H",
    Int32: ">i",
    UInt32: ">I",
    Int64: ">q",
    Float64: ">d",
    Uuid: ">16s",
}


def naive_decode(cls: type[Message], data: bytes, version: int) -> Any:
    """Return the message in `data`. Raises DecodeError if bytes remain."""
    reader = _Reader(data, version, version in cls.flexible_versions)
    message = reader.struct(cls)
    if reader.position != len(data):
        raise DecodeError("bytes are left over")
    return message


class _Reader:
    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.data = data
        self.position = 0
        self.version = version
        self.flexible = flexible

    def take(self, length: int) -> bytes:
        if length > len(self.data) - self.position:
            raise DecodeError("too short")
        self.position += length
        return self.data[self.position - length : self.position]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 2**32:
                    break
                return value
        raise DecodeError("bad varint")

    def struct(self, cls: type[Struct]) -> Any:
        values: dict[str, Any] = {}
        tags: dict[int, DeclaredField] = {}
        for field in declared_fields(cls):
            kind = field.kind
            if self.version not in kind.present:
                continue
            if self.flexible and self.version in kind.tagged:
                assert kind.tag is not None
                tags[kind.tag] = field
            else:
                values[field.name] = self.value(kind, self.version in kind.nullable)
        for _ in range(self.varint() if self.flexible else 0):
            tag, size = self.varint(), self.varint()
            end = self.position + size
            if tag in tags:
                kind = tags[tag].kind
                values[tags[tag].name] = self.value(kind, self.version in kind.nullable)
                if self.position != end:
                    raise DecodeError("wrong size of a tagged field")
            else:
                self.take(size)
        return cls(**values)

    def value(self, kind: Kind, nullable: bool) -> Any:
        code = FIXED.get(type(kind))
        if code is not None:
            (number,) = struct.unpack(code, self.take(struct.calcsize(code)))
            return UUID(bytes=number) if isinstance(kind, Uuid) else number
        if isinstance(kind, Nested):
            # The mark of null is an int8 of -1, but an unsigned varint of 0 in a tagged field.
            null = range(1) if self.version in kind.tagged else range(0x80, 0x100)
            is_null = nullable and self.take(1)[0] in null
            return None if is_null else self.struct(kind.struct)
        length = self.length(kind)
        if length == -1 and nullable:
            return None
        if length < 0 or length > len(self.data) - self.position:
            raise DecodeError("bad length")
        if isinstance(kind, Array):
            return tuple([self.element(kind.element) for _ in range(length)])
        if isinstance(kind, String):
            return self.text(length)
        data = self.take(length)
        return memoryview(data) if isinstance(kind, Records) else data

    def length(self, kind: Kind) -> int:
        if self.flexible if kind.flexible is None else self.version in kind.flexible:
            return self.varint() - 1
        size = 2 if isinstance(kind, String) else 4
        return int.from_bytes(self.take(size), "big", signed=True)

    def element(self, element: type[Struct] | type[Kind]) -> Any:
        return self.struct(element) if issubclass(element, Struct) else self.value(element("0+"), False)

    def text(self, length: int) -> str:
        if length > 0x7FFF:
            raise DecodeError("string too long")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise DecodeError("not UTF-8") from error
