"""IncrementalAlterConfigs (key 44), versions 0-1: single keys set, deleted, or changed as lists.

Topics, groups and brokers; a broker is changed by asking that broker, all brokers by any. The broker
that is asked checks what only a broker can, and passes the rest on to the controller.

Source: KIP-339.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from broker.config import BrokerConfig
from broker.dynamic_configs import BROKER_DEFINITIONS
from broker.handlers.config_changes import (
    check_repetitions,
    check_request,
    controllers_outcomes,
    merged,
    passed,
)
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

Forward: TypeAlias = Callable[
    [RequestContext, IncrementalAlterConfigsRequest], Awaitable[IncrementalAlterConfigsResponse]
]
"""Has the active controller answer."""

_DEFINITIONS = {**TOPIC_AND_GROUP_DEFINITIONS, ResourceType.BROKER: BROKER_DEFINITIONS}


class IncrementalAlterConfigsHandler:
    """The controller's part: submits the changes."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings) -> None:
        self._store = store
        self._settings = settings

    async def handle(
        self, context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        """Answer once the changes are durable; each resource has its own outcome."""
        requested = [_change(resource) for resource in request.resources]
        outcomes = check_repetitions(requested)

        def command(image: MetadataImage) -> ControllerResult[list[Outcome]]:
            result = alter_configs(image, self._settings, passed(requested, outcomes), _DEFINITIONS)
            return replace(result, records=()) if request.validate_only else result

        rest = await self._store.submit(command)
        return _response(request.resources, merged(outcomes, rest))


class IncrementalAlterConfigsForwarder:
    """The part of the broker that is asked."""

    def __init__(self, image: Callable[[], MetadataImage], config: BrokerConfig, forward: Forward) -> None:
        self._image = image
        self._config = config
        self._forward = forward

    async def handle(
        self, context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        """Answer what this broker refuses itself, and the controller's answer for the rest."""
        requested = [_change(resource) for resource in request.resources]
        outcomes = check_request(self._config, self._image(), requested, _resulting)
        rest = passed(request.resources, outcomes)
        if rest:
            answer = await self._forward(context, replace(request, resources=tuple(rest)))
            outcomes = merged(outcomes, controllers_outcomes(rest, answer.responses))
        return _response(request.resources, outcomes)


def _response(
    resources: Sequence[AlterConfigsResource], outcomes: Iterable[Outcome]
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=outcome.code,
                error_message=outcome.text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, outcome in zip(resources, outcomes, strict=True)
        )
    )


def _change(resource: AlterConfigsResource) -> ResourceChange:
    changes = tuple(ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs)
    return ResourceChange((resource.resource_type, resource.resource_name), changes)


def _resulting(image: MetadataImage, change: ResourceChange) -> dict[str, str]:
    current = image.configs.get(change.resource, {})
    values = {**current, **changed_values(image, change, _DEFINITIONS)}
    return {key: value for key, value in values.items() if value is not None}
