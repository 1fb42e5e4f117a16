"""Conversion of messages to the classes of kio, a codec of another author with one class per version.

Both have the fields of a version in schema order, so fields are matched by position. Their names must agree
too, except for units that kio has in the type. kio converts some numbers to durations, instants and error
codes; `limits` restricts random values to the range of these types.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from random import Random
from typing import Any, get_args
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from tests.support.messages.random_messages import (
    DeclaredField,
    Domain,
    Sampler,
    declared_fields,
    inner_struct,
)
from tidelog.protocol.schema import ZERO_UUID, Message, Struct

_ERROR_CODES = [int(code) for code in ErrorCode]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _durations(random: Random) -> int:
    return random.choice((0, 1, -1, 2**31, random.randint(-(2**40), 2**40)))


def _random_timestamp(random: Random) -> int:
    return random.choice((0, 1000, 1_700_000_000_000, random.randint(0, 253_370_764_800) * 1000))


_SAMPLERS: dict[str, Sampler] = {
    "error_code": lambda random: random.choice(_ERROR_CODES),
    "timedelta_i64": _durations,
    "datetime_i64": _random_timestamp,
}


def limits(ours: type[Message], theirs: type[Any], version: int) -> Domain:
    """Return samplers for the fields that kio stores in a narrower type."""
    return dict(_limits(ours, theirs, version))


def _limits(
    ours: type[Struct], theirs: type[Any], version: int
) -> Iterator[tuple[tuple[type[Struct], str], Sampler]]:
    for our_field, their_field in matched_fields(ours, theirs, version):
        sampler = _SAMPLERS.get(their_field.metadata.get("kafka_type", ""))
        if sampler:
            yield (ours, our_field.name), sampler
        inner = inner_struct(our_field.kind)
        if inner is not None:
            yield from _limits(inner, _entity(their_field.type), version)


def matched_fields(
    ours: type[Struct], theirs: type[Any], version: int
) -> list[tuple[DeclaredField, Field[Any]]]:
    """Return the fields of both classes in pairs; AssertionError if they differ."""
    mine = [field for field in declared_fields(ours) if version in field.kind.present]
    other = list(fields(theirs))
    assert len(mine) == len(other), f"{ours.__name__} v{version}: {mine} but kio has {other}"
    for our_field, their_field in zip(mine, other, strict=True):
        assert _bare(our_field.name) == _bare(their_field.name), (
            f"{ours.__name__}.{our_field.name} v{version} is at the position of kio's {their_field.name}"
        )
    return list(zip(mine, other, strict=True))


def to_kio(message: Any, theirs: type[Any], version: int) -> Any:
    """Return `message` as an instance of kio's class of that version."""
    values = {}
    for our_field, their_field in matched_fields(type(message), theirs, version):
        value = getattr(message, our_field.name)
        values[their_field.name] = _convert(value, their_field, version)
    return theirs(**values)


def kio_encode(message: Any, theirs: type[Any], version: int) -> bytes:
    """Return kio's encoding of `message`."""
    out = io.BytesIO()
    entity_writer(theirs)(out, to_kio(message, theirs, version))
    return out.getvalue()


def kio_decode(theirs: type[Any], data: bytes) -> Any:
    """Return the message that kio decodes from all of `data`."""
    entity, size = entity_reader(theirs)(data, 0)
    assert size == len(data)
    return entity


def _convert(value: Any, field: Field[Any], version: int) -> Any:
    if isinstance(value, Struct):
        return to_kio(value, _entity(field.type), version)
    if isinstance(value, tuple):
        if value and isinstance(value[0], Struct):
            return tuple(to_kio(item, _entity(field.type), version) for item in value)
        return tuple(_plain(item, field) for item in value)
    return _plain(value, field)


def _plain(value: Any, field: Field[Any]) -> Any:
    if isinstance(value, UUID):
        return None if value == ZERO_UUID else value
    match field.metadata.get("kafka_type"):
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else _EPOCH + datetime.timedelta(milliseconds=value)
    return value


def _entity(annotation: Any) -> type[Any]:
    """Return the dataclass inside `tuple[X, ...] | None` and similar types."""
    if is_dataclass(annotation):
        return annotation  # type: ignore[return-value]
    entities = [
        entity
        for part in get_args(annotation)
        if part not in (Ellipsis, type(None))
        for entity in [_entity(part)]
    ]
    assert len(entities) == 1, annotation
    return entities[0]


def _bare(name: str) -> str:
    """Return a field name without its unit and without underscores that generators place differently."""
    return name.removesuffix("_ms").removesuffix("_").replace("_", "")
