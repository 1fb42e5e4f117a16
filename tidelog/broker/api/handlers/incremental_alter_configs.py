"""IncrementalAlterConfigs (key 44), versions 0-1: set, delete or change single keys.

For topics, groups and brokers. The configs of one broker are changed by a request to that broker, those of
all brokers by a request to any. The levels of a node's loggers are changed by a request to that node, with
SET and DELETE.

Source: KIP-339, KIP-412.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.broker.api.handlers.config_alteration import ConfigApi, resource_responses
from tidelog.broker.config.dynamic_configs import BROKER_DEFINITIONS, usable_configs
from tidelog.cluster.controller.configs import (
    TOPIC_AND_GROUP_DEFINITIONS,
    ConfigChange,
    ResourceChange,
    alter_configs,
    changed_values,
)
from tidelog.cluster.controller.result import ControllerResult, Outcome
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.steps import Steps, map_items, map_steps

_DEFINITIONS = {**TOPIC_AND_GROUP_DEFINITIONS, ResourceType.BROKER: BROKER_DEFINITIONS}


def _changes(request: IncrementalAlterConfigsRequest) -> Steps[tuple[ResourceChange, ...]]:
    return map_steps(_change, request.resources)


def _change(resource: AlterConfigsResource) -> Steps[ResourceChange]:
    changes = yield from map_items(
        lambda config: ConfigChange(config.name, config.config_operation, config.value), resource.configs
    )
    return ResourceChange((resource.resource_type, resource.resource_name), changes)


def _submission(
    image: MetadataImage, settings: ControllerSettings, requested: Sequence[ResourceChange]
) -> Steps[ControllerResult[list[Outcome]]]:
    return alter_configs(image, settings, requested, _DEFINITIONS)


def _configs_after_change(image: MetadataImage, change: ResourceChange) -> Steps[dict[str, str]]:
    current = image.configs.get(change.resource, {})
    if change.resource[0] == ResourceType.BROKER:
        current = usable_configs(current, of_one_broker=change.resource[1] != "")
    values = {**current, **(yield from changed_values(image, change, _DEFINITIONS))}
    return {key: value for key, value in values.items() if value is not None}


def _response(
    request: IncrementalAlterConfigsRequest, outcomes: Sequence[Outcome]
) -> Steps[IncrementalAlterConfigsResponse]:
    responses = yield from resource_responses(AlterConfigsResourceResponse, request.resources, outcomes)
    return IncrementalAlterConfigsResponse(responses=responses)


INCREMENTAL_ALTER_CONFIGS: Final = ConfigApi(_changes, _submission, _configs_after_change, _response)
"""IncrementalAlterConfigs changes single keys of a resource."""
