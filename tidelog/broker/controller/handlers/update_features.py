"""UpdateFeatures (key 57), versions 0-2: feature levels of the cluster.

- 1: upgrade types instead of allow_downgrade, validate_only; 2: no results by feature

`kraft.version` 1 makes the voters of the quorum dynamic; the response is sent when that is committed.

Source: KIP-584, KIP-778, KIP-853, KIP-1022.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.controller.update_features import update_features
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_LAST_WITH_RESULTS: Final = 1


class UpdateFeaturesHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings) -> None:
        self._store = store
        self._settings = settings

    async def handle(self, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        """Return when the levels are durable. Errors: INVALID_UPDATE_VERSION for all of them."""

        def command(image: MetadataImage) -> ControllerResult[bool]:
            result = update_features(image, self._settings, request, self._store.kraft_version)
            if result.reply:
                self._store.leadership.upgrade_voters(validate_only=request.validate_only)
            return result

        await self._store.submit(command)
        results: tuple[UpdatableFeatureResult, ...] = ()
        if context.header.api_version <= _LAST_WITH_RESULTS:
            results = tuple(
                UpdatableFeatureResult(feature=update.feature, error_message=None)
                for update in request.feature_updates
            )
        return UpdateFeaturesResponse(error_message=None, results=results)
