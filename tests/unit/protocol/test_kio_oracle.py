"""kio is the oracle: another author's message classes and codec, made from Kafka's schemas.

For every message that kio knows, in every version: our bytes are kio's bytes, kio reads
from them what we put in, and we read back what we wrote. Records that kio does not know
are compared with bytes that Apache Kafka wrote, in test_kafka_golden.py.
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
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.messages.headers import RequestHeader, ResponseHeader
from tidelog.protocol.schema import ApiMessage, Message

UNCOVERED_APIS: dict[str, tuple[list[int], str]] = {}
"""Requests and responses that kio lacks, by class: the versions and the reason. There are none."""

UNCOVERED_RECORDS = {
    "metadata records": [
        "AbortTransactionRecord",
        "AccessControlEntryRecord",
        "BeginTransactionRecord",
        "BrokerRegistrationChangeRecord",
        "ClearElrRecord",
        "ClientQuotaRecord",
        "ConfigRecord",
        "DelegationTokenRecord",
        "EndTransactionRecord",
        "FeatureLevelRecord",
        "FenceBrokerRecord",
        "NoOpRecord",
        "PartitionChangeRecord",
        "PartitionRecord",
        "ProducerIdsRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "RemoveAccessControlEntryRecord",
        "RemoveDelegationTokenRecord",
        "RemoveTopicRecord",
        "RemoveUserScramCredentialRecord",
        "TopicRecord",
        "UnfenceBrokerRecord",
        "UnregisterBrokerRecord",
        "UserScramCredentialRecord",
        "ZkMigrationStateRecord",
    ],
    "records of the coordinators": [
        "GroupMetadataKey",
        "GroupMetadataValue",
        "LegacyOffsetCommitKey",
        "OffsetCommitKey",
        "OffsetCommitValue",
        "TransactionLogKey",
        "TransactionLogValue",
    ],
    "remote metadata records": [
        "RemoteLogSegmentMetadataRecord",
        "RemoteLogSegmentMetadataSnapshotRecord",
        "RemoteLogSegmentMetadataUpdateRecord",
        "RemotePartitionDeleteMetadataRecord",
    ],
}
"""What kio lacks besides, in all versions: it is made from the schemas of Kafka's clients
library, and these stand in the libraries of the broker. test_kafka_golden.py has them."""


def kio_class(cls: type[Message], version: int) -> Any:
    """kio's class for `cls` in `version`, None if kio has none."""
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
def test_requests_and_responses_of_every_version_have_kios_bytes(cls: type[ApiMessage]) -> None:
    without_oracle, _ = UNCOVERED_APIS.get(cls.__name__, ([], ""))
    for version in versions_of(cls):
        if version not in without_oracle:
            assert_kio_agrees(cls, version)


COVERED_RECORDS = [
    cls for cls in other_messages() if not any(cls.__name__ in names for names in UNCOVERED_RECORDS.values())
]


@pytest.mark.parametrize("cls", COVERED_RECORDS, ids=lambda cls: cls.__name__)
def test_headers_control_records_and_member_data_have_kios_bytes(cls: type[Message]) -> None:
    for version in versions_of(cls):
        assert_kio_agrees(cls, version)


def test_the_tables_of_what_kio_lacks_are_exact() -> None:
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
