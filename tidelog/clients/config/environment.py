"""What the shells reach the world through: clock, randomness and network, so that tests can replace them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from ssl import SSLContext
from typing import Protocol


class Environment(Protocol):
    """Clock, randomness and network of one client."""

    @property
    def rng(self) -> random.Random:
        """Where jitter and random choices come from."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; for deadlines."""

    def wall_clock_ms(self) -> int:
        """Milliseconds since 1970; for record timestamps."""

    async def connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        ssl: SSLContext | None,
        local_host: str | None = None,
    ) -> None:
        """Open a stream to `host:port` whose events go to the protocol that `protocol_factory` makes.

        `local_host`: the address to connect from, None for any.
        """


class SystemEnvironment:
    """The running event loop's clock and sockets, the system's wall clock."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()

    @property
    def rng(self) -> random.Random:
        """Where jitter and random choices come from."""
        return self._rng

    def monotonic_ms(self) -> int:
        """The running loop's clock, so that a loop on virtual time moves every deadline."""
        return int(asyncio.get_running_loop().time() * 1000)

    def wall_clock_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

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
