"""Connections to other nodes: every request gets one response, and no peer delays another."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from ssl import SSLContext
from typing import Any

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.network.scripted_broker import Close, ScriptedBroker, Silence, scripted_brokers
from tests.support.waiting import eventually
from tidelog.broker.raft.peers import MAX_WAITING, Peers
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.connecting import ConnectionSettings
from tidelog.cluster.quorum.effects import Send
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.vote import VoteRequest, VoteResponse
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage

SETTINGS = ConnectionSettings(
    client_id="1", max_response_bytes=1 << 20, request_timeout_ms=60_000, setup_timeout_ms=60_000
)


class Names(SystemEnvironment):
    """An environment in which connecting to the host "slow" never ends."""

    async def connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        ssl: SSLContext | None,
        local_host: str | None = None,
    ) -> None:
        if host == "slow":
            await asyncio.Event().wait()
        await super().connect(protocol_factory, host, port, ssl, local_host)


class RequestingPeer:
    """Peers with the responses that they reported, by request id."""

    def __init__(self, settings: ConnectionSettings = SETTINGS) -> None:
        self.responses: dict[int, ApiMessage | None] = {}
        self.peers = Peers(
            Names(random.Random(1)), settings, self._on_response, listener_names=("CONTROLLER",)
        )

    def _on_response(self, request_id: int, message: ApiMessage | None) -> None:
        assert request_id not in self.responses, f"request {request_id} gets two responses"
        self.responses[request_id] = message

    def send_request(
        self, request_id: int, node: int, port: int, message: ApiMessage, host: str = "127.0.0.1"
    ) -> None:
        endpoints = (Endpoint("OTHER", "nowhere", 1), Endpoint("CONTROLLER", host, port))
        self.peers.send(Send(request_id, node, endpoints, message))

    async def response_to(self, request_id: int) -> ApiMessage | None:
        await eventually(lambda: request_id in self.responses)
        return self.responses[request_id]


def respond_to_vote(broker: ScriptedBroker, response: Any = None) -> None:
    broker.handlers[ApiKey.VOTE] = lambda request: VoteResponse() if response is None else response
    broker.handlers[ApiKey.FETCH] = lambda request: Silence


@on_both_loops
async def test_requests_get_responses_from_the_peer() -> None:
    asker = RequestingPeer()
    async with scripted_brokers(2) as brokers:
        for broker in brokers:
            respond_to_vote(broker)
            asker.send_request(broker.node_id, broker.node_id, broker.port, VoteRequest())
        assert [await asker.response_to(each) for each in (1, 2)] == [VoteResponse()] * 2
        await asker.peers.close()


@on_both_loops
async def test_a_vote_does_not_wait_for_a_fetch() -> None:
    asker = RequestingPeer()
    async with scripted_brokers() as (broker,):
        respond_to_vote(broker)
        asker.send_request(1, 1, broker.port, FetchRequest())
        await eventually(lambda: bool(broker.requests(ApiKey.FETCH)))
        asker.send_request(2, 1, broker.port, VoteRequest())
        assert await asker.response_to(2) == VoteResponse()
        assert 1 not in asker.responses
        await asker.peers.close()
        assert await asker.response_to(1) is None


@on_both_loops
async def test_an_unreachable_peer_is_reported_and_does_not_delay_others() -> None:
    asker = RequestingPeer()
    async with scripted_brokers() as (broker,):
        respond_to_vote(broker)
        asker.send_request(1, 7, 1, VoteRequest(), host="slow")
        asker.send_request(2, 8, 1, VoteRequest())
        asker.send_request(3, 1, broker.port, VoteRequest())
        assert await asker.response_to(3) == VoteResponse()
        assert await asker.response_to(2) is None
        assert 1 not in asker.responses
        await asker.peers.close()
        assert asker.responses[1] is None


@on_both_loops
async def test_first_failure_to_connect_to_a_peer_is_logged_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="tidelog.broker.raft.peers")
    requester = RequestingPeer()
    for request_id in range(3):
        requester.send_request(request_id, node=2, port=1, message=VoteRequest())
        assert await requester.response_to(request_id) is None
    (record,) = caplog.records
    assert record.getMessage().startswith("Cannot connect to node 2 at 127.0.0.1:1: ")
    assert "refused" in record.getMessage() or "Connect call failed" in record.getMessage()
    await requester.peers.close()


@on_both_loops
async def test_the_end_of_an_outage_is_logged_once_with_the_number_of_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="tidelog.broker.raft.peers")
    requester = RequestingPeer()
    for request_id, message in enumerate((VoteRequest(), FetchRequest(), VoteRequest())):
        requester.send_request(request_id, node=1, port=1, message=message)
        assert await requester.response_to(request_id) is None
    async with scripted_brokers() as (broker,):
        respond_to_vote(broker)
        requester.send_request(4, 1, broker.port, VoteRequest())
        assert await requester.response_to(4) == VoteResponse()
        requester.send_request(5, 1, broker.port, FetchRequest())
        await eventually(lambda: bool(broker.requests(ApiKey.FETCH)))
        _, last = [record.getMessage() for record in caplog.records]
        assert last == f"Connected to node 1 at 127.0.0.1:{broker.port} again after 3 failed attempts"
        await requester.peers.close()


@on_both_loops
async def test_a_connection_attempt_has_a_timeout(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="tidelog.broker.raft.peers")
    asker = RequestingPeer(
        ConnectionSettings(
            client_id="1", max_response_bytes=1 << 20, request_timeout_ms=10, setup_timeout_ms=60_000
        )
    )
    asker.send_request(1, 7, 1, VoteRequest(), host="slow")
    assert await asker.response_to(1) is None
    assert "at slow:1: no response within 10 ms" in caplog.text
    await asker.peers.close()


@on_both_loops
async def test_a_lost_connection_fails_its_requests_and_is_opened_again() -> None:
    asker = RequestingPeer()
    async with scripted_brokers() as (broker,):
        respond_to_vote(broker, Close)
        asker.send_request(1, 1, broker.port, VoteRequest())
        assert await asker.response_to(1) is None
        respond_to_vote(broker)
        asker.send_request(2, 1, broker.port, VoteRequest())
        assert await asker.response_to(2) == VoteResponse()
        await asker.peers.close()


@on_both_loops
async def test_a_changed_address_of_a_peer_is_used() -> None:
    asker = RequestingPeer()
    async with scripted_brokers(2) as (old, new):
        for broker in (old, new):
            respond_to_vote(broker)
        asker.send_request(1, 1, old.port, VoteRequest())
        await asker.response_to(1)
        asker.send_request(2, 1, new.port, VoteRequest())
        await asker.response_to(2)
        assert len(new.requests(ApiKey.VOTE)) == 1
        await eventually(lambda: not old.connections)
        assert len(new.connections) == 1
        await asker.peers.close()


@on_both_loops
async def test_requests_that_wait_for_a_connection_are_bounded() -> None:
    asker = RequestingPeer()
    for request_id in range(MAX_WAITING + 5):
        asker.send_request(request_id, 7, 1, VoteRequest(), host="slow")
    assert list(asker.responses) == list(range(MAX_WAITING, MAX_WAITING + 5))
    await asker.peers.close()
    assert len(asker.responses) == MAX_WAITING + 5


@on_both_loops
async def test_a_peer_without_the_api_is_a_failure() -> None:
    asker = RequestingPeer()
    async with scripted_brokers() as (broker,):
        broker.versions = {int(ApiKey.VOTE): -1}
        asker.send_request(1, 1, broker.port, VoteRequest())
        assert await asker.response_to(1) is None
        asker.peers.send(Send(2, 1, (), VoteRequest()))
        assert asker.responses[2] is None
        await asker.peers.close()
        asker.send_request(3, 1, broker.port, FetchRequest())
        assert asker.responses[3] is None


@on_both_loops
async def test_a_request_that_cannot_be_sent_is_logged_once_until_it_can_be_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="tidelog.broker.raft.peers")
    requester = RequestingPeer()
    async with scripted_brokers(2) as (old, new):
        old.versions = {int(ApiKey.VOTE): -1}
        respond_to_vote(new)
        for request_id in range(3):
            requester.send_request(request_id, 1, old.port, VoteRequest())
            assert await requester.response_to(request_id) is None
        requester.send_request(3, 1, new.port, VoteRequest())
        assert await requester.response_to(3) == VoteResponse()
        first, last = [record.getMessage() for record in caplog.records]
        assert first.startswith("Cannot send Vote to ")
        assert last.startswith("Vote is sent to ") and last.endswith(" again after 3 failed attempts")
        await requester.peers.close()
