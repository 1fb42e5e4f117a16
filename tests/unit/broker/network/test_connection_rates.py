"""The rates of new connections: broker, listener, address (KIP-612)."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import running_server
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.base.sampled_rate import Windows
from tidelog.broker.network.config import UNLIMITED
from tidelog.broker.network.connection_rates import CONNECTION_CREATION_RATE, ConnectionRates
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData

WINDOWS = Windows(11, 1_000)
EMPTY = MetadataImage(cluster_id="test")


def rates(broker: int = UNLIMITED, **listeners: int) -> ConnectionRates:
    connection_rates = ConnectionRates(WINDOWS, broker)
    connection_rates.update(broker, listeners)
    return connection_rates


def set_address_quota(connection_rates: ConnectionRates, name: str | None, limit: float) -> None:
    delta = MetadataDelta(EMPTY)
    entity = (EntityData(entity_type="ip", entity_name=name),)
    delta.replay(ClientQuotaRecord(entity=entity, key=CONNECTION_CREATION_RATE, value=limit))
    connection_rates.update_address_limits(delta.image(1, 1).client_quotas, {})


def delays(
    connection_rates: ConnectionRates, listener: str, count: int, *, is_protected: bool = False
) -> list[int]:
    return [
        connection_rates.admit(listener, "10.0.0.1", 0, is_protected=is_protected).delay_ms
        for _ in range(count)
    ]


def test_a_listener_over_its_rate_delays_connections_for_at_most_one_window() -> None:
    connection_rates = rates(A=1, B=UNLIMITED)
    assert delays(connection_rates, "A", 12) == [0] * 10 + [1_000, 1_000]
    assert delays(connection_rates, "B", 100) == [0] * 100
    assert connection_rates.listeners["A"].throttle_time_ms == 2_000


def test_the_rate_of_the_broker_counts_all_listeners_but_that_of_brokers() -> None:
    connection_rates = rates(1, A=UNLIMITED, B=UNLIMITED)
    assert delays(connection_rates, "B", 100, is_protected=True) == [0] * 100
    assert delays(connection_rates, "A", 11) == [0] * 10 + [1_000]
    assert delays(connection_rates, "B", 1) == [1_000]


def test_a_connection_refused_by_its_address_rate_counts_for_no_rate() -> None:
    connection_rates = rates(A=UNLIMITED)
    set_address_quota(connection_rates, None, 1)
    assert connection_rates.is_limited
    decisions = [connection_rates.admit("A", "10.0.0.1", 0, is_protected=False) for _ in range(20)]
    assert [each.is_refused for each in decisions] == [False] * 10 + [True] * 10
    assert {each.delay_ms for each in decisions[10:]} == {1_000}
    assert not connection_rates.admit("A", "10.0.0.2", 0, is_protected=False).is_refused
    assert connection_rates.broker.value(0) == pytest.approx(1.1)


def test_the_quota_of_an_address_overrides_the_default_in_every_notation() -> None:
    connection_rates = rates(A=UNLIMITED)
    set_address_quota(connection_rates, "0:0:0:0:0:0:0:1", 1)
    decisions = [connection_rates.admit("A", "::1", 0, is_protected=False) for _ in range(11)]
    assert decisions[-1].is_refused
    assert not connection_rates.admit("A", "10.0.0.2", 0, is_protected=False).is_refused


def test_changed_limits_apply_at_once() -> None:
    connection_rates = rates(A=UNLIMITED)
    assert not connection_rates.is_limited
    connection_rates.update(UNLIMITED, {"A": 1})
    assert connection_rates.is_limited
    assert delays(connection_rates, "A", 11)[-1] == 1_000
    connection_rates.update(UNLIMITED, {"A": 1_000})
    assert delays(connection_rates, "A", 1) == [0]


def test_a_rate_of_0_allows_one_connection_in_each_window() -> None:
    assert delays(rates(0, A=UNLIMITED), "A", 2) == [1_000, 1_000]


@on_both_loops
async def test_a_connection_above_the_broker_rate_is_delayed() -> None:
    config = network_config(max_connection_creation_rate=1, quota_windows=Windows(1, 1_000))
    async with running_server(config=config) as served:
        served.server.connection_rates._windows = Windows(1, 50)
        began_s = monotonic()
        for _ in range(4):
            client = await served.connect()
            assert await client.send_request(b"abc") == b"abc"
        assert monotonic() - began_s >= 0.1
        assert served.server.counters.connections_accepted == 4


@on_both_loops
async def test_a_connection_above_its_address_rate_is_closed_after_a_delay() -> None:
    async with running_server(clock=ManualClock()) as served:
        rates = served.server.connection_rates
        rates._windows = Windows(2, 50)
        set_address_quota(rates, "127.0.0.1", 20)
        first = await served.connect()
        assert await first.send_request(b"abc") == b"abc"
        assert await (await served.connect()).is_closed()
        assert served.server.counters.connections_refused == 1
        listener = served.server.listeners["PLAINTEXT"]
        await eventually(lambda: listener.socket_count == 1)


@on_both_loops
async def test_throttled_sockets_are_closed_with_the_listener() -> None:
    async with running_server() as served:
        rates = served.server.connection_rates
        set_address_quota(rates, "127.0.0.1", 0.001)
        client = await served.connect()
        listener = served.server.listeners["PLAINTEXT"]
        await eventually(lambda: len(listener._throttled_sockets) == 1)
        listener.stop()
        assert await asyncio.wait_for(client.is_closed(), TIMEOUT_S)
        assert listener.socket_count == 0
