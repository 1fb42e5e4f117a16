"""Controllers on real sockets for tests of their clients; the test selects the active one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.support.network.loopback_server import RunningServer, running_server
from tidelog.base.clock import SystemClock
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.api.handlers.api_versions import ApiVersionsHandler, Features
from tidelog.broker.channels.controller_channel import ControllerChannel
from tidelog.broker.controller.handlers.envelope import EnvelopeHandler
from tidelog.broker.controller.local import InProcessController
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_metrics import RequestMetrics
from tidelog.broker.scheduling.slices import Slices
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.registry import ApiKey

SETTINGS = ConnectionSettings(
    client_id="1", max_response_bytes=1_000_000, request_timeout_ms=600_000, setup_timeout_ms=600_000
)
CLOCK = SystemClock()


def in_ms(milliseconds: int) -> int:
    """Return a deadline in monotonic ms."""
    return CLOCK.monotonic_ms() + milliseconds


class FakeController:
    """One controller: its dispatcher, and whether it is active."""

    def __init__(self, node_id: int, *, active: bool = True) -> None:
        self.node_id = node_id
        self.active = active
        self.tasks = RequestChannel(100)
        self.dispatcher = Dispatcher(
            self.tasks, RequestMetrics(), CLOCK, Slices(CLOCK), quotas=None, guard=None
        )
        self.dispatcher.register(
            ApiKey.API_VERSIONS, ApiVersionsHandler(self.dispatcher.apis, lambda: Features())
        )
        self.dispatcher.register(
            ApiKey.ENVELOPE, EnvelopeHandler(self.dispatcher, lambda: self.active).handle
        )
        self.in_process = InProcessController(
            self.dispatcher, lambda: self.active, CLOCK, client_id=str(node_id)
        )
        self.served: RunningServer

    def register(self, key: ApiKey, handler: Callable[[Any, Any], Any]) -> None:
        """Register a handler that responds while the controller is active."""

        async def active_only(context: Any, request: Any) -> Any:
            if not self.active:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "not active")
            response = handler(context, request)
            if asyncio.iscoroutine(response):
                response = await response
            if not self.active:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "not active any more")
            return response

        self.dispatcher.register(key, active_only)

    @property
    def address(self) -> BrokerAddress:
        """Return the address of the listener."""
        return BrokerAddress(self.node_id, "127.0.0.1", self.served.port)


class FakeQuorum:
    """Several controllers, one of which is reported as the leader."""

    def __init__(self, controllers: list[FakeController]) -> None:
        self.controllers = controllers
        self.leader: FakeController | None = controllers[0] if controllers else None

    def address(self) -> BrokerAddress | None:
        """Return the address of the reported leader."""
        return None if self.leader is None else self.leader.address

    def move(self, leader: FakeController | None) -> None:
        """Make another controller active, and report it as the leader."""
        for each in self.controllers:
            each.active = each is leader
        self.leader = leader


@asynccontextmanager
async def quorum_of(count: int) -> AsyncIterator[FakeQuorum]:
    """Yield controllers 1 to `count`, which listen; the first is active."""
    async with AsyncExitStack() as stack:
        controllers = [FakeController(node_id, active=node_id == 1) for node_id in range(1, count + 1)]
        for each in controllers:
            each.served = await stack.enter_async_context(running_server(each.dispatcher.dispatch))
            stack.push_async_callback(each.tasks.close)
        yield FakeQuorum(controllers)


@asynccontextmanager
async def channel_to(
    quorum: FakeQuorum, local: FakeController | None = None
) -> AsyncIterator[ControllerChannel]:
    """Yield a channel of a node; `local` is the controller of the same node."""
    channel = ControllerChannel(
        find=quorum.address,
        environment=SystemEnvironment(),
        settings=SETTINGS,
        clock=CLOCK,
        slices=Slices(CLOCK),
        local=None if local is None else local.in_process,
    )
    try:
        yield channel
    finally:
        await channel.close()
