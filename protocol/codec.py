"""Messages to bytes and back, by the declarations in `protocol.schema`.

`encode` raises ValueError for a value that the version cannot express; `decode` raises
DecodeError for bytes that are not a message of that version.
"""

from __future__ import annotations

import struct
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints
from uuid import UUID

from protocol.errors import DecodeError
from protocol.schema import (
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

M = TypeVar("M", bound=Message)

_FIXED: dict[type[Kind], struct.Struct] = {
    Bool: struct.Struct(">?"),
    Int8: struct.Struct(">b"),
    Int16: struct.Struct(">h"),
    UInt16: struct.Struct(">H"),
    Int32: struct.Struct(">i"),
    UInt32: struct.Struct(">I"),
    Int64: struct.Struct(">q"),
    Float64: struct.Struct(">d"),
    Uuid: struct.Struct(">16s"),
}


class _Field(NamedTuple):
    name: str
    kind: Kind
    default: Any


@cache
def _fields(cls: type[Struct]) -> tuple[_Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_Field(f.name, hints[f.name].__metadata__[0], f.default) for f in fields(cls))  # type: ignore[arg-type]


def encode(message: Message, version: int) -> bytes:
    """The bytes of `message` in `version`."""
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append the bytes of `message` in `version` to `out`."""
    _check_version(type(message), version)
    try:
        _write_struct(message, version, version in message.flexible_versions, out)
    except struct.error as error:
        raise ValueError(f"{type(message).__name__} version {version}: {error}") from error


def decode(cls: type[M], buffer: bytes | bytearray | memoryview, version: int) -> M:
    """The message that fills the whole of `buffer`."""
    message, position = decode_prefix(cls, buffer, version, 0)
    if position != len(buffer):
        raise DecodeError(f"{len(buffer) - position} bytes follow {cls.__name__} version {version}")
    return message


def decode_prefix(
    cls: type[M], buffer: bytes | bytearray | memoryview, version: int, position: int
) -> tuple[M, int]:
    """The message that starts at `position` of `buffer`, and the position behind it."""
    _check_version(cls, version)
    reader = _Reader(memoryview(buffer), position, version, version in cls.flexible_versions)
    try:
        message = reader.struct(cls)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"{cls.__name__} version {version}: {error}") from error
    return message, reader.position


def _check_version(cls: type[Message], version: int) -> None:
    if version not in cls.valid_versions:
        raise ValueError(f"{cls.__name__} has no version {version}")


def _write_varint(value: int, out: bytearray) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_struct(message: Struct, version: int, flexible: bool, out: bytearray) -> None:
    tags: dict[int, bytearray] = {}
    for name, kind, default in _fields(type(message)):
        value = getattr(message, name)
        if version not in kind.present:
            if not kind.ignorable and value != default:
                raise ValueError(
                    f"{type(message).__name__}.{name} is {value!r} but version {version} lacks it"
                )
        elif flexible and version in kind.tagged:
            if value != default:
                assert kind.tag is not None
                tags[kind.tag] = bytearray()
                _write_value(name, kind, value, version, flexible, tags[kind.tag], tagged=True)
        else:
            _write_value(name, kind, value, version, flexible, out)
    if flexible:
        _write_varint(len(tags), out)
        for tag, data in sorted(tags.items()):
            _write_varint(tag, out)
            _write_varint(len(data), out)
            out += data


def _write_length(kind: Kind, length: int, compact: bool, out: bytearray) -> None:
    if compact:
        _write_varint(length + 1, out)
    elif isinstance(kind, String):
        out += struct.pack(">h", length)
    else:
        out += struct.pack(">i", length)


def _write_value(
    name: str, kind: Kind, value: Any, version: int, flexible: bool, out: bytearray, *, tagged: bool = False
) -> None:
    fixed = _FIXED.get(type(kind))
    compact = flexible if kind.flexible is None else version in kind.flexible
    if fixed is not None:
        out += fixed.pack(value.bytes if isinstance(value, UUID) else value)
    elif value is None:
        if version not in kind.nullable:
            raise ValueError(f"{name} is None, which version {version} cannot express")
        if isinstance(kind, Nested):
            out += b"\0" if tagged else b"\xff"
        else:
            _write_length(kind, -1, compact, out)
    elif isinstance(kind, Nested):
        if version in kind.nullable:
            out.append(1)
        _write_struct(value, version, flexible, out)
    elif isinstance(kind, Array):
        _write_length(kind, len(value), compact, out)
        for item in value:
            if issubclass(kind.element, Struct):
                _write_struct(item, version, flexible, out)
            else:
                _write_value(name, kind.element("0+"), item, version, flexible, out)
    else:
        data = value.encode() if isinstance(kind, String) else value
        if isinstance(kind, String) and len(data) > 0x7FFF:
            raise ValueError(f"{name} has {len(data)} bytes, over the 32767 of a string")
        _write_length(kind, len(data), compact, out)
        out += data


class _Reader:
    """A position in a buffer that is being decoded."""

    def __init__(self, view: memoryview, position: int, version: int, flexible: bool) -> None:
        self.view = view
        self.position = position
        self.version = version
        self.flexible = flexible

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.view[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value
        raise DecodeError(f"varint over 32 bits at {self.position}")

    def take(self, length: int) -> memoryview:
        if length > len(self.view) - self.position:
            raise DecodeError(f"{length} bytes wanted at {self.position} of {len(self.view)}")
        self.position += length
        return self.view[self.position - length : self.position]

    def fixed(self, layout: struct.Struct) -> Any:
        return layout.unpack(self.take(layout.size))[0]

    def length(self, kind: Kind, compact: bool, nullable: bool) -> int | None:
        if compact:
            length = self.varint() - 1
        else:
            length = self.fixed(_FIXED[Int16] if isinstance(kind, String) else _FIXED[Int32])
        if length == -1 and nullable:
            return None
        if length < 0 or length > len(self.view) - self.position:
            raise DecodeError(f"length {length} at {self.position} of {len(self.view)}")
        if isinstance(kind, String) and length > 0x7FFF:
            raise DecodeError(f"length {length} of a string at {self.position}")
        return length

    def struct(self, cls: type[Any]) -> Any:
        values: dict[str, Any] = {}
        tags: dict[int, _Field] = {}
        for field in _fields(cls):
            kind = field.kind
            if self.version not in kind.present:
                continue
            if self.flexible and self.version in kind.tagged:
                assert kind.tag is not None
                tags[kind.tag] = field
            else:
                values[field.name] = self.value(kind, self.version in kind.nullable)
        if self.flexible:
            for _ in range(self.varint()):
                tag, size = self.varint(), self.varint()
                end = self.position + size
                if tag in tags:
                    kind = tags[tag].kind
                    values[tags[tag].name] = self.value(kind, self.version in kind.nullable, tagged=True)
                    if self.position != end:
                        raise DecodeError(f"tagged field {tag} has {size} bytes")
                else:
                    self.take(size)
        return cls(**values)

    def value(self, kind: Kind, nullable: bool, *, tagged: bool = False) -> Any:
        fixed = _FIXED.get(type(kind))
        if fixed is not None:
            value = self.fixed(fixed)
            return UUID(bytes=value) if isinstance(kind, Uuid) else value
        if isinstance(kind, Nested):
            if nullable:
                prefix = self.fixed(_FIXED[Int8])
                if prefix == 0 if tagged else prefix < 0:
                    return None
            return self.struct(kind.struct)
        compact = self.flexible if kind.flexible is None else self.version in kind.flexible
        length = self.length(kind, compact, nullable)
        if length is None:
            return None
        if isinstance(kind, Array):
            element = kind.element
            if issubclass(element, Struct):
                return tuple([self.struct(element) for _ in range(length)])
            plain = element("0+")
            return tuple([self.value(plain, False) for _ in range(length)])
        data = self.take(length)
        if isinstance(kind, String):
            return str(data, "utf-8")
        return data if isinstance(kind, Records) else bytes(data)
