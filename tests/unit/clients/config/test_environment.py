"""Connections of a client: lookups of names that are cancelled, and names with several addresses."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.unhandled import UnhandledErrors
from tidelog.clients.config.environment import SystemEnvironment

UNKNOWN_NAME = "no-such-host.invalid"


@on_both_loops
async def test_a_cancelled_lookup_that_fails_later_is_not_logged() -> None:
    loop = asyncio.get_running_loop()
    unhandled = UnhandledErrors(loop)
    connecting = loop.create_task(SystemEnvironment().connect(asyncio.Protocol, UNKNOWN_NAME, 1, None))
    await asyncio.sleep(0)
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)
    assert connecting.cancelled()
    # The task keeps the lookup alive by its traceback.
    del connecting
    # Lookups of one loop end in their order here: the cancelled one has ended, too.
    with pytest.raises(OSError):
        await loop.getaddrinfo(UNKNOWN_NAME, 1)
    assert await unhandled.collect_reports() == []


async def test_the_addresses_of_a_name_are_tried_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transports: list[asyncio.BaseTransport] = []

    class TransportRecorder(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transports.append(transport)

    lookup = loop.getaddrinfo

    async def getaddrinfo(host: str, number: int, **options: Any) -> Any:
        if host != "broker.example":
            return await lookup(host, number, **options)
        addresses = ("127.0.0.2", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, number)) for address in addresses]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    await SystemEnvironment().connect(TransportRecorder, "broker.example", port, None)
    assert transports[0].get_extra_info("peername") == ("127.0.0.1", port)
    transports[0].close()
    server.close()
    await server.wait_closed()
    with pytest.raises(OSError, match=r"127\.0\.0\.2.*; .*127\.0\.0\.1"):
        await SystemEnvironment().connect(TransportRecorder, "broker.example", port, None)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (("fe80::1", 9092, 0, 3), "fe80::1%3"),
        (("fe80::1%3", 9092, 0, 3), "fe80::1%3"),
        (("2001:db8::1", 9092, 0, 0), "2001:db8::1"),
        (("127.0.0.1", 9092), "127.0.0.1"),
    ],
)
async def test_a_link_local_address_is_connected_to_on_its_interface(
    monkeypatch: pytest.MonkeyPatch, endpoint: tuple[Any, ...], expected: str
) -> None:
    loop = asyncio.get_running_loop()
    connected: list[str] = []

    async def getaddrinfo(host: str, number: int, **options: Any) -> Any:
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", endpoint)]

    async def create_connection(factory: Any, host: str, port: int, **options: Any) -> None:
        connected.append(host)

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(loop, "create_connection", create_connection)
    await SystemEnvironment().connect(asyncio.Protocol, "broker.example", 9092, None)
    assert connected == [expected]
