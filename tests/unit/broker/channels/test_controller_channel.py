"""Typed requests to the active controller, also while it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from ssl import SSLContext
from typing import Any

import pytest

from tests.support.network.controllers import CLOCK, SETTINGS, FakeController, channel_to, in_ms, quorum_of
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.channels.controller_channel import MAX_IN_FLIGHT, ControllerChannel
from tidelog.broker.scheduling.slices import Slices
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.registry import ApiKey

REQUEST = AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)


def respond_with_own_id(controller: FakeController) -> list[Any]:
    """Let it respond to AllocateProducerIds with its own id; return the list of its requests."""
    requests: list[Any] = []

    def handler(context: Any, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        requests.append((context, request))
        return AllocateProducerIdsResponse(producer_id_start=controller.node_id)

    controller.register(ApiKey.ALLOCATE_PRODUCER_IDS, handler)
    return requests


async def test_requests_are_sent_to_the_active_controller() -> None:
    async with quorum_of(2) as quorum, channel_to(quorum) as channel:
        for each in quorum.controllers:
            respond_with_own_id(each)
        response = await channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        assert response.producer_id_start == 1
        quorum.move(quorum.controllers[1])
        response = await channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        assert response.producer_id_start == 2


async def test_a_controller_in_the_same_node_is_called_directly() -> None:
    local = FakeController(1)
    requests = respond_with_own_id(local)
    async with quorum_of(0) as quorum, channel_to(quorum, local) as channel:
        response = await channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        assert response.producer_id_start == 1
        assert requests[0][1] is REQUEST


async def test_an_unknown_controller_is_awaited() -> None:
    async with quorum_of(1) as quorum, channel_to(quorum) as channel:
        [controller] = quorum.controllers
        respond_with_own_id(controller)
        quorum.leader = None
        asking = asyncio.create_task(
            channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        )
        await asyncio.sleep(0)
        quorum.leader = controller
        channel.on_controller_changed()
        assert (await asking).producer_id_start == 1


async def test_without_a_controller_until_the_deadline_the_request_times_out() -> None:
    async with quorum_of(1) as quorum, channel_to(quorum) as channel:
        quorum.leader = None
        with pytest.raises(KafkaError) as error:
            await channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(30))
        assert error.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_a_former_controller_is_replaced_by_the_new_one() -> None:
    async with quorum_of(2) as quorum, channel_to(quorum) as channel:
        first, second = quorum.controllers
        for each in quorum.controllers:
            respond_with_own_id(each)
        await channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        first.active = False
        asking = asyncio.create_task(
            channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        )
        await eventually(lambda: first.dispatcher.apis())
        quorum.move(second)
        assert (await asking).producer_id_start == 2


async def test_not_controller_in_an_item_of_the_response_is_retried() -> None:
    async with quorum_of(1) as quorum, channel_to(quorum) as channel:
        [controller] = quorum.controllers
        codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.TOPIC_ALREADY_EXISTS]

        def handler(context: Any, request: CreateTopicsRequest) -> CreateTopicsResponse:
            result = CreatableTopicResult(name=request.topics[0].name, error_code=codes.pop(0))
            return CreateTopicsResponse(topics=(result,))

        controller.register(ApiKey.CREATE_TOPICS, handler)
        request = CreateTopicsRequest(topics=(CreatableTopic(name="tides", num_partitions=1),))
        response = await channel.request(request, CreateTopicsResponse, deadline=in_ms(600_000))
        assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert codes == []


async def test_a_request_in_flight_is_sent_again_when_its_connection_is_lost() -> None:
    async with quorum_of(1) as quorum, channel_to(quorum) as channel:
        [controller] = quorum.controllers
        calls = 0

        async def handler(context: Any, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
            nonlocal calls
            calls += 1
            if calls == 1:
                for connection in list(controller.served.server.listeners["PLAINTEXT"].connections):
                    connection.abort()
                await asyncio.Event().wait()
            return AllocateProducerIdsResponse(producer_id_start=calls)

        controller.register(ApiKey.ALLOCATE_PRODUCER_IDS, handler)
        response = await channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        assert response.producer_id_start == 2


async def test_a_silent_former_controller_is_abandoned_when_another_is_known() -> None:
    async with quorum_of(2) as quorum, channel_to(quorum) as channel:
        first, second = quorum.controllers
        reached = asyncio.Event()

        async def ignore_request(
            context: Any, request: AllocateProducerIdsRequest
        ) -> AllocateProducerIdsResponse:
            reached.set()
            await asyncio.Event().wait()
            return AllocateProducerIdsResponse()

        first.register(ApiKey.ALLOCATE_PRODUCER_IDS, ignore_request)
        respond_with_own_id(second)
        asking = asyncio.create_task(
            channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        )
        await reached.wait()
        quorum.move(second)
        channel.on_controller_changed()
        assert (await asyncio.wait_for(asking, TIMEOUT_S)).producer_id_start == 2


async def test_a_connection_attempt_to_a_former_controller_is_cancelled() -> None:
    async with quorum_of(2) as quorum:
        first, second = quorum.controllers
        respond_with_own_id(second)
        environment = Unreachable(first.address.port)
        channel = ControllerChannel(
            find=quorum.address,
            environment=environment,
            settings=replace(SETTINGS, setup_timeout_ms=600_000),
            clock=CLOCK,
            slices=Slices(CLOCK),
        )
        asking = asyncio.create_task(
            channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        )
        await environment.tried.wait()
        quorum.move(second)
        channel.on_controller_changed()
        assert (await asyncio.wait_for(asking, TIMEOUT_S)).producer_id_start == 2
        await channel.close()


class Unreachable(SystemEnvironment):
    """A network that drops all data that is sent to one port."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self.tried = asyncio.Event()

    async def connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        ssl: SSLContext | None,
        local_host: str | None = None,
    ) -> None:
        if port == self._port:
            self.tried.set()
            await asyncio.Event().wait()
        await super().connect(protocol_factory, host, port, ssl, local_host)


async def test_a_controller_without_the_api_is_not_retried() -> None:
    async with quorum_of(1) as quorum, channel_to(quorum) as channel:
        with pytest.raises(KafkaError) as error:
            await channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        assert error.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_the_number_of_requests_in_flight_is_limited() -> None:
    async with quorum_of(0) as quorum:
        local = FakeController(1)
        running = 0
        most = 0
        go = asyncio.Event()

        async def handler(context: Any, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await go.wait()
            running -= 1
            return AllocateProducerIdsResponse()

        local.register(ApiKey.ALLOCATE_PRODUCER_IDS, handler)
        async with channel_to(quorum, local) as channel:
            asking = [
                asyncio.create_task(
                    channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
                )
                for _ in range(MAX_IN_FLIGHT + 10)
            ]
            await eventually(lambda: running == MAX_IN_FLIGHT)
            go.set()
            await asyncio.gather(*asking)
        assert most == MAX_IN_FLIGHT


async def test_waiting_requests_fail_when_the_node_stops() -> None:
    async with quorum_of(1) as quorum, channel_to(quorum) as channel:
        quorum.leader = None
        asking = asyncio.create_task(
            channel.request(REQUEST, AllocateProducerIdsResponse, deadline=in_ms(600_000))
        )
        await asyncio.sleep(0)
        await channel.close()
        with pytest.raises(KafkaError) as error:
            await asking
        assert error.value.code is ErrorCode.NOT_CONTROLLER
