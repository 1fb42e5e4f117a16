"""Admin calls about feature levels, and about brokers that were removed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.clients.admin.admin_requests import AdminRequests
from tidelog.clients.transport.api_versions import negotiation_request
from tidelog.clients.transport.failures import raise_for
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.api_versions import ApiVersionsResponse
from tidelog.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tidelog.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tidelog.protocol.registry import ApiKey


class LevelRange(NamedTuple):
    """The levels of a feature, or the versions of an API, that a broker supports."""

    lowest: int
    highest: int


class UpgradeType(IntEnum):
    """The allowed directions in which a feature level may change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFeatures:
    """The finalized levels as of `epoch` (-1: none), and the levels that the responding broker supports."""

    finalized: Mapping[str, int]
    supported: Mapping[str, LevelRange]
    epoch: int


class FeatureAdmin:
    """Feature levels, and the unregistration of brokers."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe_features(self, *, timeout_ms: int | None = None) -> ClusterFeatures:
        """Return the finalized feature levels of the cluster and the levels that one broker supports."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        response = await self._requests.send(negotiation_request(), ApiVersionsResponse, deadline_ms)
        raise_for(response.error_code, "describe features")
        return ClusterFeatures(
            finalized={feature.name: feature.max_version_level for feature in response.finalized_features},
            supported={
                feature.name: LevelRange(feature.min_version, feature.max_version)
                for feature in response.supported_features
            },
            epoch=response.finalized_features_epoch,
        )

    async def describe_api_versions(
        self, broker_ids: Iterable[BrokerId] | None = None, *, timeout_ms: int | None = None
    ) -> dict[BrokerId, dict[int, LevelRange] | KafkaError]:
        """Return the versions of each API that each broker (None: all brokers) supports, by API key."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        ids = self._requests.client.network.broker_ids if broker_ids is None else tuple(broker_ids)

        async def versions(broker_id: BrokerId) -> dict[int, LevelRange] | KafkaError:
            try:
                response = await self._requests.send(
                    negotiation_request(), ApiVersionsResponse, deadline_ms, node_id=broker_id
                )
                raise_for(response.error_code, f"API versions of broker {broker_id}")
            except KafkaError as error:
                return error
            return {
                entry.api_key: LevelRange(entry.min_version, entry.max_version) for entry in response.api_keys
            }

        return dict(zip(ids, await asyncio.gather(*map(versions, ids)), strict=True))

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Change the finalized feature levels, all or none; raise KafkaError if one is rejected."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        def make(version: int) -> UpdateFeaturesRequest:
            return UpdateFeaturesRequest(
                feature_updates=tuple(
                    FeatureUpdateKey(
                        feature=name,
                        max_version_level=level,
                        upgrade_type=upgrade_type if version > 0 else UpgradeType.UPGRADE,
                        allow_downgrade=version == 0 and upgrade_type is not UpgradeType.UPGRADE,
                    )
                    for name, level in levels.items()
                ),
                validate_only=validate_only,
                timeout_ms=self._requests.remaining_ms(deadline_ms),
            )

        response = await self._requests.send_to_controller_for_version(
            ApiKey.UPDATE_FEATURES, make, UpdateFeaturesResponse, deadline_ms
        )
        raise_for(response.error_code, "update features", response.error_message)

    async def unregister_broker(self, broker_id: BrokerId, *, timeout_ms: int | None = None) -> None:
        """Remove the registration of a broker that will not return."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        request = UnregisterBrokerRequest(broker_id=broker_id)
        response = await self._requests.send_to_controller(request, UnregisterBrokerResponse, deadline_ms)
        raise_for(response.error_code, f"unregister broker {broker_id}", response.error_message)
