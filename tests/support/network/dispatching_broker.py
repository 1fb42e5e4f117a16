"""A server whose requests a dispatcher handles, and its messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sized
from contextlib import asynccontextmanager

from tests.support.loops.yields import counted_slices
from tests.support.network.loopback_server import Client, RunningServer, running_server
from tidelog.base.clock import SystemClock
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.network.request_metrics import RequestMetrics
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.codec import decode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.registry import ApiKey, response_type
from tidelog.protocol.schema import ApiMessage

HEARTBEAT_HIGHEST = 4


class DispatchingBroker:
    """A served dispatcher."""

    def __init__(self, limit: int = 500, *, ticking: bool = False) -> None:
        """With `ticking` ten steps make a slice, however fast they are."""
        self.channel = RequestChannel(limit)
        self.metrics = RequestMetrics()
        slices = counted_slices() if ticking else Slices(SystemClock())
        self.dispatcher = Dispatcher(
            self.channel, self.metrics, SystemClock(), slices, quotas=None, guard=None
        )
        self.served: RunningServer

    async def connect(self) -> Client:
        return await self.served.connect()


@asynccontextmanager
async def run_broker(broker: DispatchingBroker) -> AsyncIterator[DispatchingBroker]:
    async with running_server(broker.dispatcher.dispatch) as served:
        broker.served = served
        yield broker
    await broker.channel.close()


async def send(client: Client, message: ApiMessage, version: int, correlation_id: int = 7) -> None:
    await client.send(
        encode_request(ApiKey(message.api_key), version, correlation_id, "test-client", message)
    )


async def receive(client: Client, key: ApiKey, version: int, correlation_id: int = 7) -> ApiMessage:
    response = memoryview(await client.receive())
    response_id, position = read_response_header(response, key, version)
    assert response_id == correlation_id
    return decode(response_type(key), response[position:], version)


async def send_request(client: Client, message: ApiMessage, version: int) -> ApiMessage:
    await send(client, message, version)
    return await receive(client, ApiKey(message.api_key), version)


def heartbeat(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=len(request.group_id))


def has_requests(channel: RequestChannel, count: int) -> bool:
    return channel.running_count + channel.waiting_count == count


def has_length(items: Sized, length: int) -> bool:
    return len(items) == length


def names(count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=tuple(CreatableTopic(name=f"topic-{n}") for n in range(count)))
