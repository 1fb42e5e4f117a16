"""ApiVersions: the supported APIs and features, and the client's software (KIP-35, KIP-511, KIP-584)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tidelog.protocol.registry import Api

SOFTWARE_FROM_VERSION: Final = 3
SOFTWARE_CHARACTERS_MAX: Final = 256
"""The number of characters of the client's software that are kept for each connection."""
_ZERO_LEVELS_FROM_VERSION: Final = 4
"""Clients with older versions reject a lowest feature level of 0 (KAFKA-17011)."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class Features:
    """The features of the cluster; `epoch` is -1 if none has been finalized yet."""

    supported: tuple[SupportedFeatureKey, ...] = ()
    finalized: tuple[FinalizedFeatureKey, ...] = ()
    epoch: int = -1


class ApiVersionsHandler:
    """Returns the registered APIs of one kind of listener with Kafka's version ranges."""

    def __init__(self, apis: Callable[[], Sequence[Api]], features: Callable[[], Features]) -> None:
        self._apis = apis
        self._features = features

    def __call__(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        if context.header.api_version >= SOFTWARE_FROM_VERSION:
            name, version = request.client_software_name, request.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
            context.client.on_software_reported(f"{name} {version}"[:SOFTWARE_CHARACTERS_MAX])
        features = self._features()
        supported = features.supported
        if context.header.api_version < _ZERO_LEVELS_FROM_VERSION:
            supported = tuple(feature for feature in supported if feature.min_version > 0)
        return ApiVersionsResponse(
            api_keys=tuple(
                ApiVersion(api_key=api.key, min_version=api.lowest, max_version=api.highest)
                for api in self._apis()
            ),
            supported_features=supported,
            finalized_features_epoch=features.epoch,
            finalized_features=features.finalized,
        )
