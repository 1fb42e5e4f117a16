"""AlterConfigs (key 33), versions 0-2: replace all configs of a resource; omitted keys are removed.

The older API, which overwrites what another client set between reading and writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.broker.api.handlers.config_alteration import ConfigApi, resource_responses
from tidelog.cluster.controller.configs import ConfigChange, ConfigOperation, ResourceChange, replace_configs
from tidelog.cluster.controller.result import Outcome
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from tidelog.protocol.steps import Steps, map_items, map_steps


def _changes(request: AlterConfigsRequest) -> Steps[tuple[ResourceChange, ...]]:
    return map_steps(_change, request.resources)


def _change(resource: AlterConfigsResource) -> Steps[ResourceChange]:
    changes = yield from map_items(
        lambda config: ConfigChange(config.name, ConfigOperation.SET, config.value), resource.configs
    )
    return ResourceChange((resource.resource_type, resource.resource_name), changes)


def _configs_after_change(image: MetadataImage, change: ResourceChange) -> Steps[dict[str, str]]:
    configs = {}
    for one in change.changes:
        if one.value is not None:
            configs[one.key] = one.value
        yield None
    return configs


def _response(request: AlterConfigsRequest, outcomes: Sequence[Outcome]) -> Steps[AlterConfigsResponse]:
    responses = yield from resource_responses(AlterConfigsResourceResponse, request.resources, outcomes)
    return AlterConfigsResponse(responses=responses)


ALTER_CONFIGS: Final = ConfigApi(_changes, replace_configs, _configs_after_change, _response)
"""AlterConfigs replaces all configs of a resource."""
