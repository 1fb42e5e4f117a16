"""ApiVersions: client names, and the features that each version shows."""

from __future__ import annotations

import pytest

from tidelog.broker.api.handlers.api_versions import SOFTWARE_CHARACTERS_MAX, ApiVersionsHandler, Features
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tidelog.protocol.registry import APIS, ApiKey

METADATA_VERSION = SupportedFeatureKey(name="metadata.version", min_version=7, max_version=27)
FROM_ZERO = SupportedFeatureKey(name="group.version", min_version=0, max_version=1)


def request_versions(
    version: int, name: str = "", software_version: str = "", client: ConnectedClient | None = None
) -> ApiVersionsResponse:
    features = Features(
        supported=(METADATA_VERSION, FROM_ZERO),
        finalized=(FinalizedFeatureKey(name="metadata.version", max_version_level=27, min_version_level=27),),
        epoch=42,
    )
    handler = ApiVersionsHandler(lambda: [APIS[ApiKey.FETCH]], lambda: features)
    header = RequestHeader(ApiKey.API_VERSIONS, version, 1, None)
    context = RequestContext(header, "PLAINTEXT", "[::1]:5", "User:ANONYMOUS", 0, client or ConnectedClient())
    assert context.client_host == "/::1"
    return handler(
        context, ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    )


@pytest.mark.parametrize("name", ["", "-a", "a-", ".", "a b", "a\n", "größe", "a_b", "a/b"])
def test_from_version_3_an_invalid_software_name_is_refused(name: str) -> None:
    for version in (3, 4):
        assert request_versions(version, name, "1.0").error_code == ErrorCode.INVALID_REQUEST
        assert request_versions(version, "client", name).error_code == ErrorCode.INVALID_REQUEST
    for version in (0, 1, 2):
        assert request_versions(version, name, name).error_code == ErrorCode.NONE


@pytest.mark.parametrize("name", ["a", "A9", "apache-kafka-java", "librdkafka", "2.16.1-rc.1", "0"])
def test_valid_software_names_are_accepted(name: str) -> None:
    assert request_versions(3, name, name).error_code == ErrorCode.NONE


def test_a_connection_keeps_only_the_beginning_of_a_long_software_name() -> None:
    client = ConnectedClient()
    assert request_versions(3, "a" * 30_000, "1", client).error_code == ErrorCode.NONE
    assert client.software == "a" * SOFTWARE_CHARACTERS_MAX


def test_features_that_begin_at_version_0_are_hidden_from_clients_that_refuse_them() -> None:
    assert request_versions(3, "c", "1").supported_features == (METADATA_VERSION,)
    assert request_versions(4, "c", "1").supported_features == (METADATA_VERSION, FROM_ZERO)


def test_finalized_features_come_with_their_epoch() -> None:
    response = request_versions(4, "c", "1")
    assert response.finalized_features_epoch == 42
    assert [feature.max_version_level for feature in response.finalized_features] == [27]
