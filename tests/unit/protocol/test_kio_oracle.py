"""kio is the oracle: message classes and a codec of another author, generated from Kafka's schemas.

For every message of kio, in every version: our bytes equal kio's bytes, kio decodes them to the
original values, and so do we. Records that kio lacks are compared with bytes written by Apache
Kafka, in test_kafka_golden.py.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from kio.index import UnknownEntity, load_entity_schema, load_request_schema, load_response_schema
from kio.schema.index import schema_name_map
from kio.static.constants import EntityType

from tests.support.messages.all_messages import api_messages, other_messages, versions_of
from tests.support.messages.kio_messages import kio_decode, kio_encode, limits, to_kio
from tests.support.messages.random_messages import random_messages
from tests.support.messages.uncovered_records import UNCOVERED_RECORDS
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.messages.headers import RequestHeader, ResponseHeader
from tidelog.protocol.schema import ApiMessage, Message

UNCOVERED_APIS: dict[str, tuple[list[int], str]] = {}
"""Requests and responses that kio lacks, by class: the versions and the reason. Empty: kio has all."""


def kio_class(cls: type[Message], version: int) -> Any:
    """Return kio's class for `cls` in `version`, or None if kio has none."""
    if issubclass(cls, ApiMessage):
        load = load_request_schema if cls.__name__.endswith("Request") else load_response_schema
        return load(cls.api_key, version)
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=K)(?=Raft)", "_", cls.__name__).lower()
    if version not in schema_name_map.get(name, {}):
        return None
    if cls in (RequestHeader, ResponseHeader):
        return load_entity_schema(name, version, EntityType.header)
    return load_entity_schema(name, version, EntityType.data)


def assert_kio_agrees(cls: type[Message], version: int) -> None:
    theirs = kio_class(cls, version)
    for message in random_messages(cls, version, "kio", domain=limits(cls, theirs, version)):
        data = encode(message, version)
        assert data == kio_encode(message, theirs, version), f"version {version}: {message}"
        assert kio_decode(theirs, data) == to_kio(message, theirs, version), f"version {version}: {message}"
        assert decode(cls, data, version) == message, f"version {version}: {message}"


@pytest.mark.parametrize("cls", api_messages(), ids=lambda cls: cls.__name__)
def test_requests_and_responses_of_every_version_equal_kios_bytes(cls: type[ApiMessage]) -> None:
    without_oracle, _ = UNCOVERED_APIS.get(cls.__name__, ([], ""))
    for version in versions_of(cls):
        if version not in without_oracle:
            assert_kio_agrees(cls, version)


COVERED_RECORDS = [
    cls for cls in other_messages() if not any(cls.__name__ in names for names in UNCOVERED_RECORDS.values())
]


@pytest.mark.parametrize("cls", COVERED_RECORDS, ids=lambda cls: cls.__name__)
def test_headers_control_records_and_member_data_equal_kios_bytes(cls: type[Message]) -> None:
    for version in versions_of(cls):
        assert_kio_agrees(cls, version)


def test_the_tables_of_messages_missing_in_kio_are_exact() -> None:
    lacking_apis = {
        cls.__name__: missing
        for cls in api_messages()
        if (missing := [version for version in versions_of(cls) if not kio_has(cls, version)])
    }
    lacking_records = {
        cls.__name__
        for cls in other_messages()
        if not all(kio_has(cls, version) for version in versions_of(cls))
    }
    assert lacking_apis == {name: versions for name, (versions, _) in UNCOVERED_APIS.items()}
    assert lacking_records == {name for names in UNCOVERED_RECORDS.values() for name in names}


def kio_has(cls: type[Message], version: int) -> bool:
    try:
        return kio_class(cls, version) is not None
    except UnknownEntity:
        return False
