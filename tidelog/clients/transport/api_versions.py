"""The version of each API that both ends of one connection support.

Source: KIP-35 (negotiation), KIP-511 (the response to an ApiVersions version that is too new).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.protocol.codec import decode_prefix
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.registry import APIS, ApiKey, request_type

_SOFTWARE_NAME = "tidelog"
_SOFTWARE_VERSION = "0.1.0"


class FinalizedFeatures(NamedTuple):
    """The finalized feature levels of the cluster as of `epoch`; -1 if the broker returned none.

    Source: KIP-584.
    """

    epoch: int = -1
    levels: Mapping[str, int] = {}

    def level(self, name: str) -> int:
        """Return the finalized level of a feature; 0 if it has none."""
        return self.levels.get(name, 0)


class ApiVersions:
    """Chooses among the versions that one broker and this client support."""

    __slots__ = ("_chosen", "_offered", "features")

    def __init__(self, offered: Iterable[ApiVersion], features: FinalizedFeatures | None = None) -> None:
        self.features = features or FinalizedFeatures()
        self._offered = {entry.api_key: (entry.min_version, entry.max_version) for entry in offered}
        self._chosen: dict[int, int] = {}

    def choose(self, api_key: int, highest: int | None = None) -> int:
        """Return the highest version that both ends support, at most `highest`.

        Raise KafkaError(UNSUPPORTED_VERSION) if there is none.
        """
        if highest is None:
            chosen = self._chosen.get(api_key)
            if chosen is None:
                chosen = self._chosen[api_key] = self._negotiate(api_key, None)
            return chosen
        return self._negotiate(api_key, highest)

    def offered_range(self, api_key: int) -> tuple[int, int] | None:
        """Return the lowest and highest version that the broker supports; None for an unsupported API."""
        return self._offered.get(api_key)

    def _negotiate(self, api_key: int, highest: int | None) -> int:
        api = APIS[api_key]
        lowest = max(api.lowest, request_type(api_key).valid_versions.lowest)
        offered = self._offered.get(api_key)
        if offered is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the broker does not support {api.name}")
        version = min(api.highest if highest is None else min(highest, api.highest), offered[1])
        if version < max(lowest, offered[0]):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{api.name}: the broker supports versions {offered[0]}..{offered[1]},"
                f" this client {lowest}..{api.highest}",
            )
        return version


def negotiation_request() -> ApiVersionsRequest:
    """Return the first request of every connection."""
    return ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=_SOFTWARE_VERSION)


def decode_negotiation(body: memoryview, version: int) -> ApiVersionsResponse:
    """Decode the response to `negotiation_request`, which was sent in `version`.

    A broker that does not support `version` responds with UNSUPPORTED_VERSION in version 0. Some brokers
    write the rest of that response in another format; then only the error code is returned.
    """
    error_code = int.from_bytes(body[:2], "big", signed=True)
    if error_code != ErrorCode.UNSUPPORTED_VERSION:
        return decode_prefix(ApiVersionsResponse, body, version, 0)[0]
    try:
        return decode_prefix(ApiVersionsResponse, body, 0, 0)[0]
    except DecodeError:
        return ApiVersionsResponse(error_code=error_code)


def finalized_features(response: ApiVersionsResponse) -> FinalizedFeatures:
    """Return the finalized features in a response."""
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return FinalizedFeatures(response.finalized_features_epoch, levels)


def fallback_version(response: ApiVersionsResponse) -> int:
    """Return the ApiVersions version to use after UNSUPPORTED_VERSION: the broker's highest, or 0."""
    for entry in response.api_keys:
        if entry.api_key == ApiKey.API_VERSIONS:
            return max(0, min(entry.max_version, APIS[ApiKey.API_VERSIONS].highest))
    return 0
