"""The declarations keep the rules that Kafka's own generator enforces on its schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.codec_plan import plan_struct
from protocol.schema import Array, Bytes, Message, Nested, String, Struct, Versions, versions
from tests.support.all_messages import all_messages, versions_of
from tests.support.random_messages import declared_fields, inner_struct


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("3+", [3, 4, 32767], [-1, 0, 2]),
        ("0-7", [0, 3, 7], [-1, 8]),
        ("5", [5], [4, 6]),
        ("none", [], [-1, 0, 1, 32767]),
    ],
)
def test_versions_are_read_in_kafkas_notation(text: str, inside: list[int], outside: list[int]) -> None:
    assert all(version in versions(text) for version in inside)
    assert not any(version in versions(text) for version in outside)


@pytest.mark.parametrize("text", ["", "x", "1-", "-", "+", "1-x"])
def test_other_notations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        versions(text)


def structs_in(cls: type[Struct]) -> Iterator[type[Struct]]:
    yield cls
    for field in declared_fields(cls):
        inner = inner_struct(field.kind)
        if inner is not None:
            yield from structs_in(inner)


MESSAGES = pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)


@MESSAGES
def test_tags_count_up_from_zero_and_exist_only_in_flexible_versions(cls: type[Message]) -> None:
    for struct in structs_in(cls):
        tags = [field.kind.tag for field in declared_fields(struct) if field.kind.tag is not None]
        assert sorted(tags) == list(range(len(tags)))
        for field in declared_fields(struct):
            tagged = field.kind.tagged
            assert (field.kind.tag is None) == (tagged == versions("none"))
            if field.kind.tag is not None:
                assert tagged.highest is None and tagged.lowest >= field.kind.present.lowest
                assert tagged.lowest >= cls.flexible_versions.lowest and cls.flexible_versions.highest is None


@MESSAGES
def test_only_what_can_be_null_is_declared_nullable(cls: type[Message]) -> None:
    for struct in structs_in(cls):
        for field in declared_fields(struct):
            if field.kind.nullable != versions("none"):
                assert isinstance(field.kind, String | Bytes | Array | Nested), field
            if isinstance(field.kind, Nested) and field.kind.tag is not None:
                assert field.kind.nullable == versions("none"), "a tagged struct cannot be null here"


@MESSAGES
def test_every_default_can_be_written_where_the_field_exists(cls: type[Message]) -> None:
    for struct in structs_in(cls):
        for field in declared_fields(struct):
            assert not isinstance(field.default, list | dict | set), field
            if field.default is None and not has_null_default_that_must_be_set(field.kind, field.name):
                assert all_in(field.kind.present, field.kind.nullable, versions_of(cls)), field


def has_null_default_that_must_be_set(kind: Any, name: str) -> bool:
    """Kafka gives ShareFetchResponse.records no default but null and forbids it from version 1."""
    return isinstance(kind, Bytes) and name == "records"


def all_in(some: Versions, others: Versions, existing: range) -> bool:
    return all(version in others for version in existing if version in some)


@MESSAGES
def test_every_element_of_an_array_takes_at_least_one_byte(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for plan in plan_struct(cls, version, version in cls.flexible_versions).nested():
            for field in (*plan.ordinary, *plan.tagged):
                if isinstance(field.kind, Array) and field.struct is not None:
                    assert field.struct.least_bytes >= 1, f"{plan.name}.{field.name} version {version}"
