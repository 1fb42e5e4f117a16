"""Ports for servers that need to know each other's address before they start."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Final

from tidelog.base.randomness import SYSTEM_RANDOMNESS

FIRST_PORT: Final = 15_000
END_PORT: Final = 32_000
"""The ports of this range are below those that Linux and macOS give to clients (32768 and more).

The operating system cannot give such a port to a client while a server that uses it is being restarted.
"""
ATTEMPTS: Final = 1_000


def free_ports(count: int) -> list[int]:
    """Return `count` consecutive ports of the loopback address that no process uses at the moment.

    Raises OSError(EADDRINUSE) if none of a thousand random ranges is free.
    """
    for _ in range(ATTEMPTS):
        first = FIRST_PORT + SYSTEM_RANDOMNESS.randrange(END_PORT - FIRST_PORT - count)
        ports = range(first, first + count)
        if _are_free(ports):
            return list(ports)
    text = f"no {count} consecutive ports are free in {FIRST_PORT} to {END_PORT - 1}"
    raise OSError(errno.EADDRINUSE, text)


def preferred_port(port: int) -> int:
    """Return `port` if no process uses it at the moment, else another free one. Errors: OSError."""
    return port if _are_free([port]) else free_ports(1)[0]


def _are_free(ports: Iterable[int]) -> bool:
    with ExitStack() as stack:
        for port in ports:
            probe = stack.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
