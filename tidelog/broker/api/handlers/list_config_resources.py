"""ListConfigResources (key 74), versions 0-1: the resources whose configs can be described.

Version 0 is for client metrics subscriptions. Version 1 has a list of types; an empty one means all.

Source: KIP-1142; KafkaApis.handleListConfigResources of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tidelog.protocol.steps import Steps

_TYPES_FROM: Final = 1


class ListConfigResourcesHandler:
    """Returns resources of the image."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def handle(
        self, context: RequestContext, request: ListConfigResourcesRequest
    ) -> Steps[ListConfigResourcesResponse]:
        """Return the resources of the requested types; UNSUPPORTED_VERSION for an unknown type."""
        types: tuple[int, ...] = (ResourceType.CLIENT_METRICS,)
        if context.header.api_version >= _TYPES_FROM:
            types = request.resource_types or tuple(ResourceType)
        if not set(types) <= set(ResourceType):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        image = self._image()
        resources = []
        for resource_type in dict.fromkeys(types):
            for name in _names(image, resource_type):
                resources.append(ConfigResource(resource_name=name, resource_type=resource_type))
                yield None
        return ListConfigResourcesResponse(config_resources=tuple(resources))


def _names(image: MetadataImage, resource_type: int) -> Iterable[str]:
    if resource_type == ResourceType.TOPIC:
        return image.topics_by_name
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker.id) for _, broker in sorted(image.brokers.items()) if not broker.fenced]
    return [name for kind, name in image.configs if kind == resource_type]
