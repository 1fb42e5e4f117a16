"""Error responses of every API and version are valid."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.messages.error_responses import error_response_of
from tests.support.messages.random_messages import Shape, random_message
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tidelog.protocol.messages.produce import ProduceRequest
from tidelog.protocol.registry import APIS, ApiKey, request_type
from tidelog.protocol.schema import ApiMessage, Struct

CODE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

# The response cannot repeat their items; a failure of the whole request closes the connection.
WITHOUT = {ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.ALTER_CLIENT_QUOTAS}


def codes_in(value: object) -> list[int]:
    """All error codes of a message, at any depth."""
    if isinstance(value, tuple):
        return [code for item in value for code in codes_in(item)]
    if not isinstance(value, Struct):
        return []
    codes: list[int] = []
    for name in value.__slots__:
        item = getattr(value, name)
        codes += [item] if name in ("error_code", "partition_error_code") else codes_in(item)
    return codes


@pytest.mark.parametrize("key", [key for key in APIS if key not in WITHOUT], ids=lambda key: ApiKey(key).name)
def test_an_api_has_an_error_response(key: int) -> None:
    kind = request_type(key)
    for version in range(max(APIS[key].lowest, kind.valid_versions.lowest), APIS[key].highest + 1):
        request = random_message(kind, version, Random(version), Shape.FULL)
        if key == ApiKey.PRODUCE and getattr(request, "acks", None) == 0:
            continue
        response = error_response_of(request, version, CODE, "loading")
        if response is None:
            assert key == ApiKey.DESCRIBE_LOG_DIRS, f"version {version}"
            continue
        assert decode(type(response), encode(response, version), version) == response
        assert CODE in codes_in(response), f"version {version}"


def test_a_failed_produce_without_acks_has_no_response() -> None:
    assert error_response_of(ProduceRequest(acks=0), 9, CODE, "") is None
    assert error_response_of(ProduceRequest(acks=1), 9, CODE, "") is not None


def test_a_failed_fetch_names_its_partitions() -> None:
    topics = (FetchTopic(topic="t", partitions=(FetchPartition(partition=4), FetchPartition(partition=6))),)
    response = error_response_of(FetchRequest(topics=topics), 11, CODE, "")
    assert isinstance(response, FetchResponse)
    assert response.error_code == CODE
    (topic,) = response.responses
    assert topic.topic == "t"
    assert [(one.partition_index, one.error_code, one.high_watermark) for one in topic.partitions] == [
        (4, CODE, -1),
        (6, CODE, -1),
    ]
    # From version 13 on there is only the error of the whole response, as in Kafka.
    response = error_response_of(FetchRequest(topics=topics), 13, CODE, "")
    assert isinstance(response, FetchResponse)
    assert (response.error_code, response.responses) == (CODE, ())


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_a_failed_offset_fetch_has_its_error_in_the_field_of_the_version(version: int) -> None:
    request = OffsetFetchRequest(
        group_id="g",
        topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(1, 2)),),
        groups=(OffsetFetchRequestGroup(group_id="g"),),
    )
    response = error_response_of(request, version, CODE, "")
    assert isinstance(response, OffsetFetchResponse)
    if version >= 8:
        assert [(group.group_id, group.error_code) for group in response.groups] == [("g", CODE)]
    elif version >= 2:
        assert response.error_code == CODE
    else:
        (topic,) = response.topics
        assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(1, CODE), (2, CODE)]


def test_a_failed_find_coordinator_has_no_node() -> None:
    response = error_response_of(FindCoordinatorRequest(coordinator_keys=("g", "h")), 4, CODE, "wait")
    assert isinstance(response, FindCoordinatorResponse)
    assert [(one.key, one.node_id, one.port, one.error_message) for one in response.coordinators] == [
        ("g", -1, -1, "wait"),
        ("h", -1, -1, "wait"),
    ]


def test_a_failed_metadata_request_for_all_topics_is_empty_before_version_13() -> None:
    request: ApiMessage = MetadataRequest(topics=None)
    assert error_response_of(request, 12, CODE, "") == MetadataResponse(topics=())
    assert error_response_of(request, 13, CODE, "") == MetadataResponse(topics=(), error_code=CODE)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_failed_creation_of_a_delegation_token_has_kafkas_values_for_unknown(version: int) -> None:
    response = error_response_of(CreateDelegationTokenRequest(), version, CODE, "")
    requester = ("User", "ANONYMOUS") if version >= 3 else ("", "")
    assert response == CreateDelegationTokenResponse(
        error_code=CODE,
        principal_type="User",
        principal_name="ANONYMOUS",
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
