from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.support.network.scripted_broker import Close, ScriptedBroker, Silence, scripted_brokers
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.protocol.registry import ApiKey

SETTINGS = ConnectionSettings(
    client_id="tests", max_response_bytes=100_000, request_timeout_ms=5_000, setup_timeout_ms=5_000
)


def address(broker: ScriptedBroker) -> BrokerAddress:
    return BrokerAddress(broker.node_id, "127.0.0.1", broker.port)


async def test_a_connection_uses_the_configured_local_address() -> None:
    async with scripted_brokers() as [broker]:
        settings = replace(SETTINGS, local_host="127.0.0.7")
        connection = await open_connection(SystemEnvironment(), settings, address(broker))
        [writer] = broker.connections.values()
        assert writer.get_extra_info("peername")[0] == "127.0.0.7"
        assert connection.version_of(ApiKey.METADATA) >= 0
        connection.close()


async def test_a_broker_that_closes_or_is_silent_is_an_error_in_time() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.API_VERSIONS] = lambda request: Close
        with pytest.raises(Exception, match="was lost"):
            await open_connection(SystemEnvironment(), SETTINGS, address(broker))
        broker.handlers[ApiKey.API_VERSIONS] = lambda request: Silence
        settings = replace(SETTINGS, setup_timeout_ms=20)
        with pytest.raises(asyncio.TimeoutError):
            await open_connection(SystemEnvironment(), settings, address(broker))
