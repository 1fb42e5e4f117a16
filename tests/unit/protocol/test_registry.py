"""The API registry equals Kafka 4.3's, and finds the message classes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.messages.all_messages import versions_of
from tidelog.protocol.registry import (
    APIS,
    ApiKey,
    Listener,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)


def test_all_89_apis_are_registered_and_removed_ones_are_not() -> None:
    assert sorted(APIS) == [0, 1, 2, 3, *range(8, 93)]
    assert {api.key for api in APIS.values()} == set(ApiKey)


@pytest.mark.parametrize("key", sorted(APIS))
def test_the_advertised_versions_exist_as_messages(key: int) -> None:
    api = APIS[key]
    request, response = request_type(key), response_type(key)
    assert (request.__name__, response.__name__) == (f"{api.name}Request", f"{api.name}Response")
    assert request.api_key == response.api_key == key
    assert versions_of(request) == versions_of(response)
    flexible = [version for version in versions_of(request) if version in request.flexible_versions]
    assert flexible == [version for version in versions_of(request) if api.is_flexible(version)]
    advertised = range(api.lowest, api.highest + 1)
    if key not in (ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID):
        assert advertised == versions_of(request)


def test_produce_advertises_removed_versions_for_librdkafka() -> None:
    assert (APIS[ApiKey.PRODUCE].lowest, APIS[ApiKey.PRODUCE].highest) == (0, 13)
    assert versions_of(request_type(ApiKey.PRODUCE)) == range(3, 14)


def test_the_unstable_version_of_init_producer_id_is_not_advertised() -> None:
    assert APIS[ApiKey.INIT_PRODUCER_ID].highest == 5
    assert versions_of(request_type(ApiKey.INIT_PRODUCER_ID)) == range(7)


def test_the_api_versions_response_has_header_0_in_every_version() -> None:
    assert [response_header_version(18, version) for version in range(5)] == [0, 0, 0, 0, 0]
    assert [request_header_version(18, version) for version in range(5)] == [1, 1, 1, 2, 2]


def test_flexible_versions_have_flexible_headers() -> None:
    assert [request_header_version(3, version) for version in (0, 8, 9, 13)] == [1, 1, 2, 2]
    assert [response_header_version(3, version) for version in (0, 8, 9, 13)] == [0, 0, 1, 1]
    assert request_header_version(ApiKey.SASL_HANDSHAKE, 1) == 1
    assert response_header_version(ApiKey.SASL_HANDSHAKE, 1) == 0


def test_controllers_and_brokers_serve_different_apis() -> None:
    controller_only = {api.name for api in APIS.values() if api.listeners == {Listener.CONTROLLER}}
    assert {"Vote", "BrokerHeartbeat", "Envelope", "AlterPartition"} <= controller_only
    assert APIS[ApiKey.FETCH].listeners == {Listener.BROKER, Listener.CONTROLLER}
    assert APIS[ApiKey.PRODUCE].listeners == {Listener.BROKER}


def test_an_unknown_key_is_a_key_error() -> None:
    for type_of in (request_type, response_type):
        with pytest.raises(KeyError):
            type_of(7)


def test_importing_the_registry_imports_no_message() -> None:
    program = (
        "import sys, tidelog.protocol.registry, tidelog.protocol.framing;"
        "print([name for name in sys.modules if name.startswith('tidelog.protocol.messages')])"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
