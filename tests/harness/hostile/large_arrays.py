"""Requests with arrays of any length, for any API, built from its schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from tests.support.messages.random_messages import RANGES, declared_fields
from tests.support.network.raw_client import RawClient, served_versions
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.registry import ApiKey, request_type
from tidelog.protocol.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Kind,
    Nested,
    Records,
    String,
    Struct,
    Uuid,
)

Path = tuple[str, ...]
"""The names of fields from a message down to one of its arrays."""

EXISTING: Final = "plain"
"""A topic that every target has."""

NO_ID: Final = UUID(int=0)
_TOPIC_IDS: Final = ("topic_id", "id")
_TOPIC_NAMES: Final = ("topic", "name", "topic_name")

FIXED: Final[Mapping[str, Any]] = {
    "acks": -1,
    "allow_auto_topic_creation": False,
    "assignments": (),
    "committed_metadata": "",
    "coordinator_keys": (),
    "entity_type": "client-id",
    "generation_id_or_member_epoch": -1,
    "group_instance_id": None,
    "key_type": 0,
    "max_bytes": 1_000_000,
    "max_records": 500,
    "max_wait_ms": 0,
    "min_bytes": 0,
    # An invalid name, so that no topic is created: that is a separate attack.
    "num_partitions": 0,
    "partition_max_bytes": 1,
    "replica_id": -1,
    "resource_type": 2,
    "response_partition_limit": 2000,
    "session_epoch": -1,
    "session_id": 0,
    "session_timeout_ms": 10_000,
    "timeout_ms": 5_000,
    "transactional_id": None,
    "validate_only": True,
}
"""Values of fields without which a request is rejected at once."""


def latest_versions(address: tuple[str, int]) -> list[tuple[ApiKey, int]]:
    """Return the highest version of every API that the broker serves."""
    latest: dict[ApiKey, int] = {}
    for key, version in served_versions(*address):
        latest[key] = max(version, latest.get(key, version))
    return sorted(latest.items())


def array_paths(cls: type[Struct], version: int) -> Iterator[Path]:
    """Yield the path of every array in a message, at any depth."""
    for field in declared_fields(cls):
        kind = field.kind
        if version not in kind.present:
            continue
        if isinstance(kind, Array):
            yield (field.name,)
            if issubclass(kind.element, Struct):
                for rest in array_paths(kind.element, version):
                    yield (field.name, *rest)


def wide_request(
    key: ApiKey, version: int, path: Path, count: int, *, is_distinct: bool, topic_id: UUID = NO_ID
) -> Any:
    """Return a request with `count` elements in the array at `path` and one in every other.

    Distinct elements name resources that do not exist, equal ones name an existing resource; `topic_id` is
    that of the topic EXISTING.
    """
    return _Builder(version, path, count, is_distinct, topic_id).struct(request_type(key), ())


def existing_topic_id(address: tuple[str, int]) -> UUID:
    """Return the id of the topic EXISTING."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=EXISTING),))
    with RawClient(*address) as client:
        return client.send_request(request, 12, MetadataResponse).topics[0].topic_id


class _Builder:
    def __init__(self, version: int, path: Path, count: int, is_distinct: bool, topic_id: UUID) -> None:
        self._topic_id = topic_id
        self._version = version
        self._path = path
        self._count = count
        self._is_distinct = is_distinct

    def struct(self, cls: type[Struct], at: Path, number: int = 0) -> Any:
        """Return a struct whose path is `at`; it is element `number` of its array."""
        values = {}
        for field in declared_fields(cls):
            if self._version not in field.kind.present:
                continue
            here = (*at, field.name)
            on_path = self._path[: len(here)] == here
            if field.name in FIXED and not on_path and self._is_allowed(field.kind, FIXED[field.name]):
                values[field.name] = FIXED[field.name]
            elif field.name in _TOPIC_IDS and not self._has_topic_name(cls):
                values[field.name] = UUID(int=number + 1) if self._is_distinct else self._topic_id
            else:
                values[field.name] = self._value(field.kind, here, number, field.default)
        return cls(**values)

    def _has_topic_name(self, cls: type[Struct]) -> bool:
        """Return whether the topic is named, so that its id stays empty."""
        return any(
            each.name in _TOPIC_NAMES and self._version in each.kind.present for each in declared_fields(cls)
        )

    def _is_allowed(self, kind: Kind, value: Any) -> bool:
        return value is not None or self._version in kind.nullable

    def _value(self, kind: Kind, at: Path, number: int, default: Any) -> Any:
        if isinstance(kind, Array):
            return self._array(kind, at)
        if isinstance(kind, Nested):
            return default
        return self._scalar(type(kind), number, default)

    def _array(self, kind: Array, at: Path) -> tuple[Any, ...]:
        count = self._count if at == self._path else 1
        element = kind.element
        if issubclass(element, Struct):
            if not self._is_distinct:
                return (self.struct(element, at),) * count
            return tuple(map(partial(self.struct, element, at), range(count)))
        return tuple(self._scalar(element, number, None) for number in range(count))

    def _scalar(self, kind: type[Kind], number: int, default: Any) -> Any:
        element = number if self._is_distinct else 0
        if issubclass(kind, String):
            return f"wide-{element}" if self._is_distinct else EXISTING
        if issubclass(kind, Records | Bytes):
            return b""
        if issubclass(kind, Bool | Float64 | Uuid):
            return default if default is not None else kind is Bool
        # A default of -1 means that the client has no value, as for epochs.
        if default == -1:
            return default
        return element if element <= RANGES[kind][1] else element % 100
