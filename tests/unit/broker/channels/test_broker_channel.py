"""Requests to brokers by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.network.controllers import CLOCK, SETTINGS, FakeController, quorum_of
from tests.support.waiting import eventually
from tidelog.broker.api.in_process import InProcessRequests
from tidelog.broker.channels.broker_channel import CONNECTIONS_MAX, BrokerChannel
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.registry import ApiKey

REQUEST = EndTxnRequest(transactional_id="tides", producer_id=4, producer_epoch=1, committed=True)


class Brokers:
    """Broker 1 is called in the process, the others over sockets; `addresses` has their current addresses."""

    def __init__(self, own: FakeController, others: list[FakeController]) -> None:
        self.own = own
        self.others = others
        self.addresses = {each.node_id: each.address for each in others}
        self.channel: BrokerChannel

    def find(self, broker_id: int) -> BrokerAddress:
        if broker_id not in self.addresses:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"no broker {broker_id}")
        return self.addresses[broker_id]

    async def send_request(self, broker_id: int) -> EndTxnResponse:
        return await self.channel.request(broker_id, REQUEST, EndTxnResponse)


@asynccontextmanager
async def brokers(request_timeout_ms: int = 5_000) -> AsyncIterator[Brokers]:
    async with AsyncExitStack() as stack:
        quorum = await stack.enter_async_context(quorum_of(2))
        own = FakeController(9)
        stack.push_async_callback(own.tasks.close)
        fixture = Brokers(own, quorum.controllers)
        fixture.channel = BrokerChannel(
            node_id=9,
            handle_locally=InProcessRequests(own.dispatcher, CLOCK, "9").handle,
            find=fixture.find,
            environment=SystemEnvironment(),
            settings=replace(SETTINGS, request_timeout_ms=request_timeout_ms),
        )
        stack.push_async_callback(fixture.channel.close)
        for each in (own, *fixture.others):
            each.active = True
        yield fixture


def image(brokers: Brokers, fenced: tuple[int, ...]) -> Any:
    """Return the part of a metadata image that a channel reads."""
    return SimpleNamespace(
        brokers={each: SimpleNamespace(fenced=each in fenced) for each in brokers.addresses}
    )


def respond_with_id(broker: FakeController, handler: Callable[[], Any] | None = None) -> list[Any]:
    """Let a broker respond to EndTxn with its own id; return the list of its requests."""
    requests: list[Any] = []

    async def respond(context: Any, request: EndTxnRequest) -> EndTxnResponse:
        requests.append((context, request))
        if handler is not None:
            await handler()
        return EndTxnResponse(producer_id=broker.node_id)

    broker.register(ApiKey.END_TXN, respond)
    return requests


async def test_requests_are_sent_to_the_listener_of_a_broker_and_locally_to_this_one() -> None:
    async with brokers() as fixture:
        for each in fixture.others:
            respond_with_id(each)
        requests = respond_with_id(fixture.own)
        assert [(await fixture.send_request(broker_id)).producer_id for broker_id in (1, 2, 9)] == [1, 2, 9]
        assert requests[0][1] is REQUEST


async def test_an_unknown_or_unavailable_broker_did_not_receive_the_request() -> None:
    async with brokers() as fixture:
        fixture.addresses[3] = BrokerAddress(3, "127.0.0.1", 1)
        for broker_id in (3, 4):
            with pytest.raises(KafkaError) as error:
                await fixture.send_request(broker_id)
            assert error.value.code is ErrorCode.BROKER_NOT_AVAILABLE


async def test_a_changed_address_of_a_broker_is_used() -> None:
    async with brokers() as fixture:
        for each in fixture.others:
            respond_with_id(each)
        assert (await fixture.send_request(1)).producer_id == 1
        fixture.addresses[1] = fixture.addresses[2]
        assert (await fixture.send_request(1)).producer_id == 2


async def test_a_lost_connection_fails_requests_in_flight_and_is_opened_again() -> None:
    async with brokers() as fixture:
        [broker, _] = fixture.others

        async def is_cancelled_once() -> None:
            if len(requests) == 1:
                raise asyncio.CancelledError

        requests = respond_with_id(broker, is_cancelled_once)
        with pytest.raises(KafkaError) as error:
            await fixture.send_request(1)
        assert error.value.code is ErrorCode.NETWORK_EXCEPTION
        assert (await fixture.send_request(1)).producer_id == 1


async def test_a_missing_response_is_a_timeout() -> None:
    async with brokers(request_timeout_ms=30) as fixture:
        respond_with_id(fixture.others[0], asyncio.Event().wait)
        with pytest.raises(KafkaError) as error:
            await fixture.send_request(1)
        assert error.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_requests_beyond_the_window_wait() -> None:
    async with brokers() as fixture:
        respond_with_id(fixture.others[0])
        responses = await asyncio.gather(*(fixture.send_request(1) for _ in range(5 * CONNECTIONS_MAX)))
        assert len(responses) == 5 * CONNECTIONS_MAX


async def test_a_slow_request_does_not_delay_others() -> None:
    # A broker handles the requests of one connection one after the other.
    async with brokers() as fixture:
        gate = asyncio.Event()

        async def block_first_request() -> None:
            if len(requests) == 1:
                await gate.wait()

        requests = respond_with_id(fixture.others[0], block_first_request)
        slow = asyncio.ensure_future(fixture.send_request(1))
        await eventually(lambda: requests)
        assert (await fixture.send_request(1)).producer_id == 1
        assert not slow.done()
        gate.set()
        assert (await slow).producer_id == 1


async def test_sequential_requests_share_one_connection() -> None:
    async with brokers() as fixture:
        requests = respond_with_id(fixture.others[0])
        for _ in range(3):
            await fixture.send_request(1)
        assert len({context.peer for context, _ in requests}) == 1


@pytest.mark.parametrize("change", ["fenced", "gone", "moved"])
async def test_requests_to_a_fenced_broker_fail_at_once(change: str) -> None:
    """Otherwise markers and verifications wait for the request timeout, and the new leader gets none."""
    async with brokers(request_timeout_ms=60_000) as fixture:
        broker = fixture.others[0]
        requests = respond_with_id(broker, asyncio.Event().wait)
        waiting = [asyncio.ensure_future(fixture.send_request(1)) for _ in range(CONNECTIONS_MAX + 1)]
        await eventually(lambda: len(requests) == CONNECTIONS_MAX)
        fixture.channel.on_metadata_changed(image(fixture, fenced=()))
        assert not any(one.done() for one in waiting)
        if change == "gone":
            del fixture.addresses[1]
        elif change == "moved":
            fixture.addresses[1] = fixture.addresses[2]
        fixture.channel.on_metadata_changed(image(fixture, fenced=(1,) if change == "fenced" else ()))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert {isinstance(each, KafkaError) and each.code for each in outcomes} == {
            ErrorCode.NETWORK_EXCEPTION
        }


async def test_a_request_cancelled_by_its_caller_is_not_reported_as_failed() -> None:
    async with brokers() as fixture:

        async def block_first_request() -> None:
            if len(requests) == 1:
                await asyncio.Event().wait()

        requests = respond_with_id(fixture.others[0], block_first_request)
        waiting = asyncio.ensure_future(fixture.send_request(1))
        await eventually(lambda: requests)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await fixture.send_request(1)).producer_id == 1


async def test_a_closed_channel_sends_no_request() -> None:
    async with brokers() as fixture:
        requests = respond_with_id(fixture.own)
        await fixture.channel.close()
        with pytest.raises(KafkaError) as error:
            await fixture.send_request(9)
        assert error.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        assert not requests
