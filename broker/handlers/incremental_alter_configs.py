"""IncrementalAlterConfigs (key 44), versions 0-1: single keys set, deleted, or changed as lists.

Topics, groups and brokers; a broker is changed by asking that broker, all brokers by any.

Source: KIP-339.
"""

from __future__ import annotations

from broker.config import BrokerConfig
from broker.dynamic_configs import BROKER_DEFINITIONS
from broker.handlers.config_changes import check_request, merged, passed
from broker.metadata.store import MetadataStore
from broker.request_context import RequestContext
from cluster.controller.configs import (
    TOPIC_AND_GROUP_DEFINITIONS,
    ConfigChange,
    ResourceChange,
    alter_configs,
    changed_values,
)
from cluster.controller.result import ControllerResult, Outcome
from cluster.controller.settings import ControllerSettings
from cluster.image import MetadataImage, ResourceType
from protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_DEFINITIONS = {**TOPIC_AND_GROUP_DEFINITIONS, ResourceType.BROKER: BROKER_DEFINITIONS}


class IncrementalAlterConfigsHandler:
    """Checks broker configs, and submits the rest to the controller."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings, config: BrokerConfig) -> None:
        self._store = store
        self._settings = settings
        self._config = config

    async def handle(
        self, context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        """Answer once the changes are durable; each resource has its own outcome."""
        requested = [_change(resource) for resource in request.resources]

        def command(image: MetadataImage) -> ControllerResult[list[Outcome]]:
            outcomes = check_request(self._config, image, requested, _resulting)
            result = alter_configs(image, self._settings, passed(requested, outcomes), _DEFINITIONS)
            return merged(outcomes, result, validate_only=request.validate_only)

        outcomes = await self._store.submit(command)
        return IncrementalAlterConfigsResponse(
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
    changes = tuple(ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs)
    return ResourceChange((resource.resource_type, resource.resource_name), changes)


def _resulting(image: MetadataImage, change: ResourceChange) -> dict[str, str]:
    current = image.configs.get(change.resource, {})
    values = {**current, **changed_values(image, change, _DEFINITIONS)}
    return {key: value for key, value in values.items() if value is not None}
