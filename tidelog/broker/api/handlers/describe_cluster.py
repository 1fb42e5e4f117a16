"""DescribeCluster (key 60), versions 0-2: the brokers; from version 2 on fenced ones too, if requested.

Source: KIP-700, KIP-919; RequestHandlerHelper and KafkaApis of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.api.handlers.partition_places import controller_of
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import cluster_operations
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.security.authorization.supported_operations import NOT_REQUESTED
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2
_NAMES: Final = {BROKERS: "brokers", CONTROLLERS: "controllers"}


class DescribeClusterHandler:
    """Returns the brokers of the image."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        node_id: BrokerId,
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
        self._image = image
        self._node_id = node_id

    def handle(self, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """Return the brokers on the client's listener. A broker returns brokers only, not controllers."""
        if request.endpoint_type != BROKERS:
            return endpoint_error(request.endpoint_type, served=BROKERS)
        image = self._image()
        brokers = tuple(
            DescribeClusterBroker(
                broker_id=broker.id,
                host=broker.endpoints[context.listener].host,
                port=broker.endpoints[context.listener].port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for _, broker in sorted(image.brokers.items())
            if context.listener in broker.endpoints and (request.include_fenced_brokers or not broker.fenced)
        )
        return DescribeClusterResponse(
            cluster_id=image.cluster_id,
            controller_id=controller_of(image, self._node_id),
            brokers=brokers,
            cluster_authorized_operations=(
                cluster_operations(self._authorizer, context)
                if request.include_cluster_authorized_operations
                else NOT_REQUESTED
            ),
        )


def endpoint_error(endpoint_type: int, *, served: int) -> DescribeClusterResponse:
    """Return the response to a request for another type of endpoint than the listener's."""
    if endpoint_type in _NAMES:
        text = f"this listener serves {_NAMES[served]}, but the request is for {_NAMES[endpoint_type]}"
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=text)
    text = f"endpoint type {endpoint_type} is unknown"
    return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=text)
