"""The states of share partitions at their coordinator (KIP-932), for other brokers.

| key | API | versions |
|---|---|---|
| 83 | InitializeShareGroupState | 0 |
| 84 | ReadShareGroupState | 0 |
| 85 | WriteShareGroupState | 0-1; 1: the number of records whose delivery is complete (KIP-1226) |
| 86 | DeleteShareGroupState | 0 |
| 87 | ReadShareGroupStateSummary | 0-1; 1: the same number |

The response to a request without a group id has no results, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.coordinators.share.persister import SharePersister
from tidelog.broker.coordinators.share.state_messages import (
    DELETE,
    INITIALIZE,
    READ,
    READ_SUMMARY,
    WRITE,
    StateMessages,
)
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage

_Call = Callable[[Sequence[Any]], Awaitable[Sequence[Any]]]


class ShareGroupStateHandler:
    """Calls one method of the coordinator with the items of a request."""

    def __init__(self, messages: StateMessages[Any, Any], call: _Call, slices: Slices) -> None:
        self._messages = messages
        self._call = call
        self._slices = slices

    async def handle(self, context: RequestContext, request: ApiMessage) -> ApiMessage:
        """Return the result of every share partition; errors are in the response."""
        if not getattr(request, "group_id", ""):
            return self._messages.response()
        items = await self._slices.complete(self._messages.items(request))
        results = await self._call(items)
        response = await self._slices.complete(self._messages.create_response(items, results))
        self._slices.release_later(items, results)
        return response


def register_share_group_state_apis(
    dispatcher: Dispatcher, coordinator: SharePersister, slices: Slices
) -> None:
    """Register the handlers. They wait for the coordinator's log, without a slot of the request channel."""
    apis: tuple[tuple[ApiKey, StateMessages[Any, Any], _Call], ...] = (
        (ApiKey.INITIALIZE_SHARE_GROUP_STATE, INITIALIZE, coordinator.initialize),
        (ApiKey.READ_SHARE_GROUP_STATE, READ, coordinator.read),
        (ApiKey.WRITE_SHARE_GROUP_STATE, WRITE, coordinator.write),
        (ApiKey.DELETE_SHARE_GROUP_STATE, DELETE, coordinator.delete),
        (ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, READ_SUMMARY, coordinator.read_summary),
    )
    for key, messages, call in apis:
        handler = ShareGroupStateHandler(messages, call, slices)
        dispatcher.register(key, handler.handle, uses_slot=False, may_wait=False)
