"""Admin calls about feature levels and about brokers that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from tidelog.clients.admin.base import AdminBase
from tidelog.clients.transport.api_versions import negotiation_request
from tidelog.clients.transport.failures import raise_for
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
    """The levels of a feature that a broker can work at."""

    lowest: int
    highest: int


class UpgradeType(IntEnum):
    """Which way a feature level may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFeatures:
    """What the cluster has agreed on as of `epoch` (-1: nothing), and what the broker asked supports."""

    finalized: Mapping[str, int]
    supported: Mapping[str, LevelRange]
    epoch: int


class FeatureAdmin(AdminBase):
    """Feature levels; forgetting brokers."""

    async def describe_features(self, *, timeout_ms: int | None = None) -> ClusterFeatures:
        """The feature levels of the cluster and of any of its brokers."""
        deadline_ms = self._deadline_ms(timeout_ms)
        response = await self._ask_any(negotiation_request(), ApiVersionsResponse, deadline_ms)
        raise_for(response.error_code, "describe features")
        return ClusterFeatures(
            finalized={each.name: each.max_version_level for each in response.finalized_features},
            supported={
                each.name: LevelRange(each.min_version, each.max_version)
                for each in response.supported_features
            },
            epoch=response.finalized_features_epoch,
        )

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Have the cluster agree on other levels, all of them or none; raises the reason against it."""
        deadline_ms = self._deadline_ms(timeout_ms)

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
                timeout_ms=self._left_ms(deadline_ms),
            )

        response = await self._ask_controller(
            make, ApiKey.UPDATE_FEATURES, UpdateFeaturesResponse, deadline_ms
        )
        raise_for(response.error_code, "update features", response.error_message)

    async def unregister_broker(self, broker_id: BrokerId, *, timeout_ms: int | None = None) -> None:
        """Have the cluster forget a broker that will not come back."""
        deadline_ms = self._deadline_ms(timeout_ms)
        request = UnregisterBrokerRequest(broker_id=broker_id)
        response = await self._ask_controller(
            lambda version: request, ApiKey.UNREGISTER_BROKER, UnregisterBrokerResponse, deadline_ms
        )
        raise_for(response.error_code, f"unregister broker {broker_id}", response.error_message)
