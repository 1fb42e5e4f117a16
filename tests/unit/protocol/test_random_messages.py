"""The random messages of the oracle and fuzz tests cover every field and kind of value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.messages.all_messages import all_messages, versions_of
from tests.support.messages.random_messages import declared_fields, inner_struct, random_messages
from tidelog.protocol.schema import Array, Bytes, Message, Nested, String, Struct

QualitiesByField = defaultdict[tuple[type[Struct], str], set[str]]


def record_qualities(message: Struct, version: int, qualities_by_field: QualitiesByField) -> None:
    """Record the kind of value of every field of `message` and of its nested structs."""
    for field in declared_fields(type(message)):
        if version in field.kind.present:
            value = getattr(message, field.name)
            qualities_by_field[type(message), field.name] |= set(properties_of(value, field.default))
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Struct):
                    record_qualities(item, version, qualities_by_field)


def properties_of(value: Any, default: Any) -> Iterator[str]:
    if value is None:
        yield "null"
    if value != default:
        yield "set"
    if isinstance(value, tuple | str | bytes):
        yield "empty" if len(value) == 0 else "filled"


def expected_qualities(cls: type[Struct], version: int) -> Iterator[tuple[type[Struct], str, str]]:
    for field in declared_fields(cls):
        kind = field.kind
        if version not in kind.present:
            continue
        inner = inner_struct(kind)
        if inner is not None:
            yield from expected_qualities(inner, version)
            if isinstance(kind, Nested) and not any(
                version in f.kind.present for f in declared_fields(inner)
            ):
                continue
        yield cls, field.name, "set"
        if version in kind.nullable:
            yield cls, field.name, "null"
        if isinstance(kind, Array | String | Bytes):
            yield cls, field.name, "empty"
            yield cls, field.name, "filled"


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_random_messages_have_every_field_set_null_and_empty_in_every_version(cls: type[Message]) -> None:
    for version in versions_of(cls):
        qualities_by_field: QualitiesByField = defaultdict(set)
        for message in random_messages(cls, version, "kio"):
            record_qualities(message, version, qualities_by_field)
        missing = [
            f"{owner.__name__}.{name} is never {quality}"
            for owner, name, quality in expected_qualities(cls, version)
            if quality not in qualities_by_field[owner, name]
        ]
        assert missing == [], f"version {version}"
