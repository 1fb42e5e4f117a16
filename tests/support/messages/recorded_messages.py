"""Golden files: bytes written by other implementations, with their values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tests.support.messages.random_messages import declared_fields
from tidelog.protocol.schema import Array, Bytes, Kind, Message, Nested, Struct, Uuid


class GoldenRecord(NamedTuple):
    """A message's class name, version, values and bytes."""

    record: str
    version: int
    values: dict[str, Any]
    data: bytes


def read_golden_records(path: Path) -> list[GoldenRecord]:
    """Return the records of a file with one JSON object per line."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        GoldenRecord(line["record"], line["version"], line["fields"], bytes.fromhex(line["bytes"]))
        for line in lines
    ]


def message_from_json(cls: type[Message], values: dict[str, Any]) -> Any:
    """Return the message of `cls` with these JSON values, and defaults for others."""
    return _struct(cls, values)


def _struct(cls: type[Struct], values: dict[str, Any]) -> Any:
    kinds = {field.name: field.kind for field in declared_fields(cls)}
    return cls(**{name: _value(kinds[name], value) for name, value in values.items()})


def _value(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    match kind:
        case Nested():
            return _struct(kind.struct, value)
        case Array():
            return tuple(_element(kind.element, item) for item in value)
        case Uuid():
            return UUID(value)
        case Bytes():
            return bytes.fromhex(value)
    return value


def _element(element: type[Struct] | type[Kind], value: Any) -> Any:
    return _struct(element, value) if issubclass(element, Struct) else _value(element("0+"), value)
