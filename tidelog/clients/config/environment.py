"""The clock, randomness and network of a client; tests replace them."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from ssl import SSLContext, SSLError
from typing import Any, Protocol

from tidelog.base.clock import SYSTEM_CLOCK, Clock


class Environment(Protocol):
    """Clock, randomness and network of one client."""

    @property
    def rng(self) -> random.Random:
        """The source of jitter and random choices."""

    def monotonic_ms(self) -> int:
        """Return a time in ms that never decreases, for deadlines."""

    def wall_ms(self) -> int:
        """Return the ms since 1970 (UTC), for record timestamps."""

    async def connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        ssl: SSLContext | None,
        local_host: str | None = None,
    ) -> None:
        """Open a stream to `host:port` with the protocol that `protocol_factory` creates.

        `local_host`: the local address; None for any.
        """


class SystemEnvironment:
    """The clock and sockets of the running event loop, and a wall clock, by default the system's."""

    def __init__(self, rng: random.Random | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._rng = rng or random.Random()
        # The bound method itself: it is called for every record.
        self.wall_ms = clock.wall_ms

    @property
    def rng(self) -> random.Random:
        """The source of jitter and random choices."""
        return self._rng

    def monotonic_ms(self) -> int:
        """Return the running loop's time in ms; a loop with virtual time changes every deadline."""
        return int(asyncio.get_running_loop().time() * 1000)

    async def connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        ssl: SSLContext | None,
        local_host: str | None = None,
    ) -> None:
        """Open a TCP (or TLS) connection; try the addresses of `host` one after the other."""
        loop = asyncio.get_running_loop()
        local = None if local_host is None else (local_host, 0)
        # Not by create_connection: if it is cancelled, uvloop logs the error of the lookup that continues.
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        failures: list[OSError] = []
        for address in dict.fromkeys(_host_of(endpoint) for *_, endpoint in found):
            try:
                await loop.create_connection(
                    protocol_factory,
                    address,
                    port,
                    ssl=ssl,
                    local_addr=local,
                    server_hostname=None if ssl is None else host,
                )
                return
            except SSLError:
                raise
            except OSError as error:
                failures.append(error)
        texts = list(dict.fromkeys(str(error) for error in failures))
        raise failures[0] if len(texts) == 1 else OSError("; ".join(texts) or f"{host} has no address")


def _host_of(endpoint: tuple[Any, ...]) -> str:
    """Return the address of a socket address; a link-local one of IPv6 with its network interface."""
    host, scope = str(endpoint[0]), endpoint[3] if len(endpoint) > 3 else 0
    return f"{host}%{scope}" if scope and "%" not in host else host
