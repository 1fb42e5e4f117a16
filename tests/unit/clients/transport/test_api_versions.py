from __future__ import annotations

import pytest

from tidelog.clients.transport.api_versions import ApiVersions, decode_negotiation, fallback_version
from tidelog.protocol.codec import encode
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.registry import ApiKey


def offered(key: ApiKey, lowest: int, highest: int) -> ApiVersions:
    return ApiVersions([ApiVersion(api_key=key, min_version=lowest, max_version=highest)])


def test_the_highest_common_version_is_chosen() -> None:
    assert offered(ApiKey.FETCH, 0, 11).choose(ApiKey.FETCH) == 11
    assert offered(ApiKey.FETCH, 0, 99).choose(ApiKey.FETCH) == 18


def test_a_caller_may_keep_to_a_lower_version() -> None:
    versions = offered(ApiKey.FETCH, 0, 18)
    assert versions.choose(ApiKey.FETCH, 12) == 12
    assert versions.choose(ApiKey.FETCH) == 18


@pytest.mark.parametrize(("lowest", "highest"), [(0, 2), (14, 20)])
def test_ranges_that_do_not_meet_are_an_error_that_names_both(lowest: int, highest: int) -> None:
    with pytest.raises(KafkaError, match=f"{lowest}..{highest}") as caught:
        offered(ApiKey.PRODUCE, lowest, highest).choose(ApiKey.PRODUCE)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_api_that_the_broker_lacks_is_an_error_that_names_it() -> None:
    with pytest.raises(KafkaError, match="DescribeProducers"):
        offered(ApiKey.FETCH, 0, 18).choose(ApiKey.DESCRIBE_PRODUCERS)


def test_a_refusal_is_read_in_version_0_whatever_was_asked() -> None:
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2),),
    )
    response = decode_negotiation(memoryview(encode(refusal, 0)), 4)
    assert fallback_version(response) == 2


def test_a_refusal_in_an_odd_form_falls_back_to_version_0() -> None:
    # What librdkafka's mock cluster sends.
    body = bytes.fromhex("00230100120000000200000000")
    response = decode_negotiation(memoryview(body), 4)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert fallback_version(response) == 0


def test_bytes_behind_an_answer_are_not_minded() -> None:
    body = encode(ApiVersionsResponse(throttle_time_ms=3), 3) + b"\x00"
    assert decode_negotiation(memoryview(body), 3).throttle_time_ms == 3
