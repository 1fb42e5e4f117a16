"""Connection limits that change while the broker runs, for hosts with slow name servers."""

from __future__ import annotations

import gc
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.configs import network_config
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.config import has_host_names
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring.connection_limits import ConnectionLimits

KEY = "max.connections.per.ip.overrides"


class SlowNameServer:
    """Responds to no query before `release` is set; `queries` has the hosts."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.queries: list[str] = []

    def getaddrinfo(self, host: str, *_: object, **options: object) -> list[tuple[object, ...]]:
        self.queries.append(host)
        assert self.release.wait(TIMEOUT_S)
        if host.startswith("nowhere"):
            raise socket.gaierror("no such host")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{host[-1]}", 0))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNameServer]:
    server = SlowNameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.getaddrinfo)
    yield server
    server.release.set()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def config(overrides: str) -> BrokerConfig:
    return BrokerConfig({"node.id": "1", KEY: overrides})


async def test_the_event_loop_does_not_wait_for_a_name_server(
    names: SlowNameServer, executor: ThreadPoolExecutor
) -> None:
    network = NetworkServer(network_config())
    limits = ConnectionLimits(network, executor)
    limits.apply(config("slow-1:5"))
    await eventually(lambda: names.queries)
    assert network.quota.config.max_connections_per_ip_overrides == {}
    names.release.set()
    await eventually(lambda: network.quota.config.max_connections_per_ip_overrides == {"10.0.0.1": 5})
    await limits.close()
    await network.close()


async def test_addresses_apply_at_once_and_an_earlier_resolution_is_ignored(
    names: SlowNameServer, executor: ThreadPoolExecutor
) -> None:
    network = NetworkServer(network_config())
    limits = ConnectionLimits(network, executor)
    limits.apply(config("late-1:5"))
    await eventually(lambda: names.queries)
    limits.apply(config("10.0.0.9:3"))
    assert network.quota.config.max_connections_per_ip_overrides == {"10.0.0.9": 3}
    names.release.set()
    executor.submit(int).result()
    await limits.close()
    assert network.quota.config.max_connections_per_ip_overrides == {"10.0.0.9": 3}
    await network.close()


async def test_of_several_changes_the_last_is_resolved(
    names: SlowNameServer, executor: ThreadPoolExecutor
) -> None:
    network = NetworkServer(network_config())
    limits = ConnectionLimits(network, executor)
    for number in range(2, 9):
        limits.apply(config(f"changed-{number}:{number}"))
        await eventually(lambda: names.queries)
    names.release.set()
    await eventually(lambda: network.quota.config.max_connections_per_ip_overrides == {"10.0.0.8": 8})
    assert names.queries == ["changed-2", "changed-8"]
    await limits.close()
    await network.close()


async def test_a_host_without_an_address_does_not_change_the_limits(
    names: SlowNameServer, executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    network = NetworkServer(network_config(max_connections_per_ip_overrides={"10.0.0.7": 7}))
    limits = ConnectionLimits(network, executor)
    names.release.set()
    limits.apply(config("nowhere:5"))
    await eventually(lambda: caplog.records)
    assert "nowhere:5" in caplog.records[0].getMessage()
    assert network.quota.config.max_connections_per_ip_overrides == {"10.0.0.7": 7}
    await limits.close()
    await network.close()


async def test_a_resolution_that_fails_too_late_is_no_error(
    names: SlowNameServer, executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio logs an exception of a future that is never retrieved."""
    caplog.set_level(logging.WARNING)
    network = NetworkServer(network_config())
    limits = ConnectionLimits(network, executor)
    limits.apply(config("nowhere-late:5"))
    await eventually(lambda: names.queries)
    limits.apply(config("found-2:5"))
    names.release.set()
    await eventually(lambda: network.quota.config.max_connections_per_ip_overrides == {"10.0.0.2": 5})
    await limits.close()
    await network.close()
    gc.collect()
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", False), ("10.0.0.1:5, [::1]:3", False), ("10.0.0.1:5,host:3", True), ("host:3", True)],
)
def test_only_host_names_are_resolved(text: str, expected: bool) -> None:
    assert has_host_names(text) is expected
