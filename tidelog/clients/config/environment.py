"""The clock, randomness and network of a client; tests replace them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from ssl import SSLContext
from typing import Protocol

from tidelog.base.clock import SystemClock


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
    """The clock and sockets of the running event loop, and the system's wall clock."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        # The bound method itself: it is called for every record.
        self.wall_ms = SystemClock().wall_ms

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
        """Open a TCP (or TLS) connection."""
        local = None if local_host is None else (local_host, 0)
        await asyncio.get_running_loop().create_connection(
            protocol_factory, host, port, ssl=ssl, local_addr=local
        )
