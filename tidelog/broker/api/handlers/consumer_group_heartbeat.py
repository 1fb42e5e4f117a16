"""ConsumerGroupHeartbeat (key 68), versions 0-1: join, stay in and leave a consumer group (KIP-848).

- 1: the client chooses the member id (KIP-1082), and may subscribe by regular expression

The API is served if `group.version` is finalized at 1 and `group.coordinator.rebalance.protocols` includes
consumer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Iterable

from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.services.consumer_groups import ConsumerGroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.steps import Steps


class ConsumerGroupHeartbeatHandler:
    """Passes heartbeats to the coordinator, if the client may describe the topics."""

    def __init__(self, groups: ConsumerGroupService, access: GroupAccess) -> None:
        self._groups = groups
        self._access = access

    def handle(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
        """Return the response, or an awaitable of it if records must be committed before.

        Errors are in the response. Nearly every heartbeat changes nothing and gets its response at once.
        """
        if not self._access.is_enabled():
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        if request.subscribed_topic_names:
            return self._subscribe(context, request)
        return self._heartbeat(context, request)

    async def _subscribe(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the response to a heartbeat with topics, if the client may describe them."""
        if not await self._access.may_subscribe(context, request.subscribed_topic_names):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        result = self._heartbeat(context, request)
        return result if isinstance(result, ConsumerGroupHeartbeatResponse) else await result

    def _heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
        def topic_filter(names: Iterable[str]) -> Steps[Container[str]]:
            return self._access.describable_topics(context, names)

        client = Client(context.header.client_id or "", context.client_host)
        version = context.header.api_version
        try:
            result = self._groups.heartbeat(client, request, version, topic_filter)
        except KafkaError as error:
            return _rejection(error)
        return result if isinstance(result, ConsumerGroupHeartbeatResponse) else _after_commit(result)


async def _after_commit(
    response: Awaitable[ConsumerGroupHeartbeatResponse],
) -> ConsumerGroupHeartbeatResponse:
    try:
        return await response
    except KafkaError as error:
        return _rejection(error)


def _rejection(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=str(error))
