"""AlterConfigs (key 33), versions 0-2: all configs of a resource at once; what is not named is dropped.

The older way, which loses what another client set between reading and writing. The broker that is
asked checks what only a broker can, and passes the rest on to the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from broker.config import BrokerConfig
from broker.handlers.config_changes import (
    check_repetitions,
    check_request,
    controllers_outcomes,
    merged,
    passed,
)
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

Forward: TypeAlias = Callable[[RequestContext, AlterConfigsRequest], Awaitable[AlterConfigsResponse]]
"""Has the active controller answer."""


class AlterConfigsHandler:
    """The controller's part: submits the changes."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings) -> None:
        self._store = store
        self._settings = settings

    async def handle(self, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Answer once the changes are durable; each resource has its own outcome."""
        requested = [_change(resource) for resource in request.resources]
        outcomes = check_repetitions(requested)

        def command(image: MetadataImage) -> ControllerResult[list[Outcome]]:
            result = replace_configs(image, self._settings, passed(requested, outcomes))
            return replace(result, records=()) if request.validate_only else result

        rest = await self._store.submit(command)
        return _response(request.resources, merged(outcomes, rest))


class AlterConfigsForwarder:
    """The part of the broker that is asked."""

    def __init__(self, image: Callable[[], MetadataImage], config: BrokerConfig, forward: Forward) -> None:
        self._image = image
        self._config = config
        self._forward = forward

    async def handle(self, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Answer what this broker refuses itself, and the controller's answer for the rest."""
        requested = [_change(resource) for resource in request.resources]
        outcomes = check_request(self._config, self._image(), requested, _resulting)
        rest = passed(request.resources, outcomes)
        if rest:
            answer = await self._forward(context, replace(request, resources=tuple(rest)))
            outcomes = merged(outcomes, controllers_outcomes(rest, answer.responses))
        return _response(request.resources, outcomes)


def _response(resources: Sequence[AlterConfigsResource], outcomes: Iterable[Outcome]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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
    changes = tuple(ConfigChange(each.name, ConfigOperation.SET, each.value) for each in resource.configs)
    return ResourceChange((resource.resource_type, resource.resource_name), changes)


def _resulting(image: MetadataImage, change: ResourceChange) -> dict[str, str]:
    return {each.key: each.value for each in change.changes if each.value is not None}
