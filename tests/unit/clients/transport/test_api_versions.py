from __future__ import annotations

from importlib.metadata import version

import pytest

from tidelog.clients.transport.api_versions import (
    ApiVersions,
    decode_negotiation,
    fallback_version,
    negotiation_request,
)
from tidelog.protocol.codec import encode
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.registry import ApiKey


def versions_of(key: ApiKey, lowest: int, highest: int) -> ApiVersions:
    return ApiVersions([ApiVersion(api_key=key, min_version=lowest, max_version=highest)])


def test_the_highest_common_version_is_chosen() -> None:
    assert versions_of(ApiKey.FETCH, 0, 11).choose(ApiKey.FETCH) == 11
    assert versions_of(ApiKey.FETCH, 0, 99).choose(ApiKey.FETCH) == 18


def test_a_caller_may_limit_the_version() -> None:
    versions = versions_of(ApiKey.FETCH, 0, 18)
    assert versions.choose(ApiKey.FETCH, 12) == 12
    assert versions.choose(ApiKey.FETCH) == 18


@pytest.mark.parametrize(("lowest", "highest"), [(0, 2), (14, 20)])
def test_disjoint_version_ranges_are_an_error_that_names_both(lowest: int, highest: int) -> None:
    with pytest.raises(KafkaError, match=f"{lowest}..{highest}") as caught:
        versions_of(ApiKey.PRODUCE, lowest, highest).choose(ApiKey.PRODUCE)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_unsupported_api_is_an_error_that_names_it() -> None:
    with pytest.raises(KafkaError, match="DescribeProducers"):
        versions_of(ApiKey.FETCH, 0, 18).choose(ApiKey.DESCRIBE_PRODUCERS)


def test_unsupported_version_is_read_in_version_0() -> None:
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2),),
    )
    response = decode_negotiation(memoryview(encode(refusal, 0)), 4)
    assert fallback_version(response) == 2


def test_an_invalid_unsupported_version_response_falls_back_to_version_0() -> None:
    # What librdkafka's mock cluster sends.
    body = bytes.fromhex("00230100120000000200000000")
    response = decode_negotiation(memoryview(body), 4)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert fallback_version(response) == 0


def test_trailing_bytes_of_a_response_are_ignored() -> None:
    body = encode(ApiVersionsResponse(throttle_time_ms=3), 3) + b"\x00"
    assert decode_negotiation(memoryview(body), 3).throttle_time_ms == 3


def test_a_connection_begins_with_the_version_of_the_installed_package() -> None:
    assert negotiation_request().client_software_version == version("tidelog")
