"""The port to the sockets of the machine: listening sockets, and reports of their events.

Accepted sockets and their transports come from the event loop and the listening socket.
"""

from __future__ import annotations

import select
import socket
from pathlib import Path
from typing import Final, Protocol

from tidelog.broker.network.listening_socket import bound_socket

_ACCEPT_QUEUE_MAXIMUM: Final = Path("/proc/sys/net/core/somaxconn")


class Poll(Protocol):
    """Reports events of descriptors as an epoll instance does: as long as they last."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        ...

    def fileno(self) -> int:
        """Return its own descriptor, which is readable while there are events."""
        ...

    def register(self, descriptor: int, events: int, /) -> None:
        """Report these events of a descriptor."""
        ...

    def modify(self, descriptor: int, events: int, /) -> None:
        """Report other events of a registered descriptor."""
        ...

    def unregister(self, descriptor: int, /) -> None:
        """Report no further events of a descriptor."""
        ...

    def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]:
        """Return up to `maxevents` pairs of a descriptor and its events."""
        ...

    def close(self) -> None:
        """Release the descriptor."""
        ...


class Sockets(Protocol):
    """The sockets of a machine."""

    def bind(self, owner: str, host: str, port: int, receive_buffer_bytes: int) -> socket.socket:
        """Return a bound socket that does not block. Errors: OSError with the name of the `owner`."""
        ...

    def poll(self) -> Poll:
        """Return a new poll instance."""
        ...

    def accept_queue_size(self, configured: int) -> int:
        """Return how many connections may wait to be accepted; -1 means the maximum of the system."""
        ...


class SystemSockets:
    """The sockets of the operating system."""

    __slots__ = ()

    def bind(self, owner: str, host: str, port: int, receive_buffer_bytes: int) -> socket.socket:
        """Return a bound socket that does not block. Errors: OSError with the name of the `owner`."""
        return bound_socket(owner, host, port, receive_buffer_bytes)

    def poll(self) -> Poll:
        """Return a new epoll instance."""
        return select.epoll()

    def accept_queue_size(self, configured: int) -> int:
        """Return how many connections may wait to be accepted; -1 means the maximum of the system."""
        if configured > 0:
            return configured
        try:
            return int(_ACCEPT_QUEUE_MAXIMUM.read_text())
        except (OSError, ValueError):
            return socket.SOMAXCONN


SYSTEM_SOCKETS: Final[Sockets] = SystemSockets()
