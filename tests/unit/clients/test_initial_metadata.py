"""The first metadata of a client: a node that has just started may return no broker."""

from __future__ import annotations

from tests.support.network.scripted_broker import ReceivedRequest, ScriptedBroker, scripted_brokers
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.messages.metadata import MetadataResponse
from tidelog.protocol.registry import ApiKey


async def test_a_node_without_known_brokers_is_retried() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.METADATA] = lambda request: _empty_at_first(broker, request)
        async with Admin(broker.address, retry_backoff_ms=1, retry_backoff_max_ms=1):
            assert len(broker.requests(ApiKey.METADATA)) == 3


def _empty_at_first(broker: ScriptedBroker, _: ReceivedRequest) -> MetadataResponse:
    is_early = len(broker.requests(ApiKey.METADATA)) < 3
    return MetadataResponse(brokers=(), topics=()) if is_early else broker.metadata()
