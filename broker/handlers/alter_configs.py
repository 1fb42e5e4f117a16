"""AlterConfigs (key 33), versions 0-2: all configs of a resource at once; what is not named is dropped.

The older way, which loses what another client set between reading and writing.
"""

from __future__ import annotations

from broker.config import BrokerConfig
from broker.handlers.config_changes import check_request, merged, passed
from broker.metadata.store import MetadataStore
from broker.request_context import RequestContext
from cluster.controller.configs import ConfigChange, ConfigOperation, ResourceChange, replace_configs
from cluster.controller.result import ControllerResult, Outcome
from cluster.controller.settings import ControllerSettings
from cluster.image import MetadataImage
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


class AlterConfigsHandler:
    """Checks broker configs, and submits the rest to the controller."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings, config: BrokerConfig) -> None:
        self._store = store
        self._settings = settings
        self._config = config

    async def handle(self, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Answer once the changes are durable; each resource has its own outcome."""
        requested = [_change(resource) for resource in request.resources]

        def command(image: MetadataImage) -> ControllerResult[list[Outcome]]:
            outcomes = check_request(self._config, image, requested, _resulting)
            result = replace_configs(image, self._settings, passed(requested, outcomes))
            return merged(outcomes, result, validate_only=request.validate_only)

        outcomes = await self._store.submit(command)
        return AlterConfigsResponse(
            responses=tuple(
                AlterConfigsResourceResponse(
                    error_code=outcome.code,
                    error_message=outcome.text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource, outcome in zip(request.resources, outcomes, strict=True)
            )
        )


def _change(resource: AlterConfigsResource) -> ResourceChange:
    changes = tuple(ConfigChange(each.name, ConfigOperation.SET, each.value) for each in resource.configs)
    return ResourceChange((resource.resource_type, resource.resource_name), changes)


def _resulting(image: MetadataImage, change: ResourceChange) -> dict[str, str]:
    return {each.key: each.value for each in change.changes if each.value is not None}
