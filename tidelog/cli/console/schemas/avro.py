"""Decodes values of Avro. Pure.

Values and schemas come from the network. Libraries allocate what a few bytes claim, or recurse in C until the
process ends; this decoder has bounds. Bounds: VALUES_MAX values, DEPTH_MAX levels. Errors: ValueError.
Source: "Binary Encoding" and "Logical Types" in the specification of Avro 1.12.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from tidelog.base.count_text import count_text
from tidelog.cli.console.schemas.avro_schema import AvroSchemas, AvroType
from tidelog.cli.console.schemas.registry import Schema

VALUES_MAX: Final = 100_000
DEPTH_MAX: Final = 64
_VARINT_BYTES_MAX: Final = 10
_FLOATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_A_SECOND: Final = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}


def avro_decoder(schema: Schema) -> Callable[[bytes], Any]:
    """Return a function that decodes payloads with this schema. Errors: ValueError."""
    schemas = AvroSchemas()
    for reference in schema.references:
        schemas.parse(json.loads(reference.text))
    root = schemas.parse(json.loads(schema.text))

    def decode(payload: bytes) -> Any:
        reader = _Reader(payload)
        value = reader.value(root)
        if reader.position != len(payload):
            raise ValueError(
                f"{count_text(len(payload) - reader.position, 'byte')} after the end of the value"
            )
        return value

    return decode


class _Reader:
    """Reads one payload."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._values = 0
        self.position = 0

    def value(self, avro_type: AvroType, depth: int = 0) -> Any:
        """Return the next value."""
        self._values += 1
        if depth > DEPTH_MAX or self._values > VALUES_MAX:
            raise ValueError(f"allowed are {VALUES_MAX} values and {DEPTH_MAX} levels")
        match avro_type.kind:
            case "record":
                parts = zip(avro_type.names, avro_type.parts, strict=True)
                return {name: self.value(part, depth + 1) for name, part in parts}
            case "union":
                return self.value(_entry(avro_type.parts, self._long()), depth + 1)
            case "enum":
                return _entry(avro_type.names, self._long())
            case "array":
                return [self.value(avro_type.parts[0], depth + 1) for _ in self._blocks()]
            case "map":
                return {self._text(): self.value(avro_type.parts[0], depth + 1) for _ in self._blocks()}
        return _logical_value(avro_type, self._primitive(avro_type))

    def _primitive(self, avro_type: AvroType) -> Any:
        match avro_type.kind:
            case "null":
                return None
            case "boolean":
                return self._bytes(1) != b"\x00"
            case "int" | "long":
                return self._long()
            case "float" | "double" as kind:
                return _FLOATS[kind].unpack(self._bytes(_FLOATS[kind].size))[0]
            case "bytes":
                return self._bytes(self._long())
            case "fixed":
                return self._bytes(avro_type.size)
        return self._text()

    def _blocks(self) -> Any:
        """Yield once for each element of an array or a map."""
        while count := self._long():
            if count < 0:
                # The size of the block follows, for readers that skip it.
                self._long()
            for _ in range(abs(count)):
                yield

    def _text(self) -> str:
        return self._bytes(self._long()).decode()

    def _bytes(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self._payload):
            raise ValueError(
                f"the value ends at byte {len(self._payload)}, but {count_text(count, 'byte')} should follow"
            )
        found = self._payload[self.position : end]
        self.position = end
        return found

    def _long(self) -> int:
        number = 0
        for index in range(_VARINT_BYTES_MAX):
            (byte,) = self._bytes(1)
            number |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise ValueError("an integer has more than 64 bits")


def _entry(entries: tuple[Any, ...], index: int) -> Any:
    if not 0 <= index < len(entries):
        raise ValueError(f"index {index}: allowed are 0 to {len(entries) - 1}")
    return entries[index]


def _logical_value(avro_type: AvroType, value: Any) -> Any:
    """Return the value of a logical type as text; unknown types and invalid values as they are stored."""
    try:
        match avro_type.logical:
            case "decimal" if isinstance(value, bytes):
                return str(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-avro_type.scale))
            case "date" if isinstance(value, int):
                return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
            case str() as logical if "timestamp-" in logical and isinstance(value, int):
                seconds, rest = divmod(value, units := _UNITS_A_SECOND[logical.rpartition("-")[2]])
                moment = _EPOCH + timedelta(seconds=seconds, microseconds=rest * 1_000_000 // units)
                is_local = logical.startswith("local-")
                return moment.replace(tzinfo=None).isoformat() if is_local else moment.isoformat()
    except (OverflowError, KeyError, ArithmeticError):
        pass
    return value
