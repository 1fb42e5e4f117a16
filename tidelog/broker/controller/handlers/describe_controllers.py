"""DescribeCluster (key 60) on a controller: the registered controllers (KIP-919).

From version 1. A request of version 0 is for brokers, which this listener does not describe.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.api.handlers.describe_cluster import CONTROLLERS, endpoint_error
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import cluster_operations
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.security.authorization.supported_operations import NOT_REQUESTED
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_NO_LEADER = -1


class DescribeControllersHandler:
    """Reads the registrations of controllers; `leader` returns the active controller."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        leader: Callable[[], BrokerId | None],
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
        self._image = image
        self._leader = leader

    def handle(self, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """Return the controllers with their endpoints for the listener of the request."""
        if request.endpoint_type != CONTROLLERS:
            return endpoint_error(request.endpoint_type, served=CONTROLLERS)
        image, leader = self._image(), self._leader()
        controllers = tuple(
            DescribeClusterBroker(broker_id=controller, host=end_point.host, port=end_point.port)
            for controller, registration in sorted(image.controllers.items())
            for end_point in registration.end_points
            if end_point.name == context.listener
        )
        return DescribeClusterResponse(
            endpoint_type=CONTROLLERS,
            cluster_id=image.cluster_id,
            controller_id=_NO_LEADER if leader is None else leader,
            brokers=controllers,
            cluster_authorized_operations=(
                cluster_operations(self._authorizer, context)
                if request.include_cluster_authorized_operations
                else NOT_REQUESTED
            ),
        )
