"""ConsumerGroupHeartbeat (key 68), versions 0-1: join, stay in and leave a consumer group (KIP-848).

- 1: the client chooses the member id (KIP-1082), and may subscribe by regular expression

The API is served if `group.version` is finalized at 1 and `group.coordinator.rebalance.protocols` includes
consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer_service import ConsumerGroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.steps import Steps

_DESCRIBE_TOPIC: Final = (AclOperation.DESCRIBE, AclResourceType.TOPIC)


class ConsumerGroupHeartbeatHandler:
    """Passes heartbeats to the coordinator, if the client may describe the topics."""

    def __init__(
        self,
        groups: ConsumerGroupService,
        authorizer: Authorizer,
        slices: Slices,
        is_enabled: Callable[[], bool],
    ) -> None:
        self._groups = groups
        self._authorizer = authorizer
        self._slices = slices
        self._is_enabled = is_enabled

    async def handle(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the response when the records of the heartbeat are committed; errors are in the response."""
        if not self._is_enabled():
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)

        def topic_filter(names: Iterable[str]) -> Steps[Container[str]]:
            return accessible_names(self._authorizer, context, _DESCRIBE_TOPIC, names, logs_denial=False)

        topics = request.subscribed_topic_names or ()
        if topics and self._authorizer.is_enabled:
            allowed = await self._slices.complete(
                accessible_names(self._authorizer, context, _DESCRIBE_TOPIC, topics)
            )
            if not all(topic in allowed for topic in topics):
                return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        client = Client(context.header.client_id or "", context.client_host)
        version = context.header.api_version
        try:
            return await self._groups.heartbeat(client, request, version, topic_filter)
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=str(error))
