"""The bound on the memory of responses that peers do not read, over all connections.

What cannot be sent at once waits in memory, unless it is a slice of a file. A connection whose peer does not
read has one response waiting, which may be as large as a Fetch from remote storage. Beyond the limit the
connection with the largest is closed; a peer that reads hardly ever has much waiting.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.base.log_limit import LogLimit
from tidelog.base.size_classes import SizeClasses

if TYPE_CHECKING:
    from tidelog.broker.network.connection import Connection

logger = logging.getLogger(__name__)


class ResponseMemory:
    """Counts what waits on connections that are blocked."""

    __slots__ = ("_connections", "_log_limit", "closed", "limit_bytes")

    def __init__(self, limit_bytes: int, log_limit: LogLimit) -> None:
        self._log_limit = log_limit
        self.limit_bytes = limit_bytes
        self.closed = 0
        """Connections that had to be closed."""
        self._connections: SizeClasses[Connection] = SizeClasses()

    @property
    def used_bytes(self) -> int:
        """What waits to be sent, as of when each connection was blocked."""
        return self._connections.total_bytes

    def blocked(self, connection: Connection, unsent_bytes: int) -> None:
        """Count what waits on a connection, in place of what was counted before."""
        self.resumed(connection)
        self._connections.add(connection, unsent_bytes)
        while self.used_bytes > self.limit_bytes:
            largest, size_bytes = self._connections.largest()
            self._connections.remove(largest)
            self.closed += 1
            self._log_limit.log(
                logger,
                logging.WARNING,
                "closing connection from %s: %d bytes of a response wait to be read, and all responses that "
                "wait exceed max.unsent.response.bytes, %d",
                largest.peer,
                size_bytes,
                self.limit_bytes,
                extra={"peer": largest.peer},
            )
            largest.abort()

    def resumed(self, connection: Connection) -> None:
        """Count nothing of a connection any more: it is not blocked, or it has ended."""
        if connection in self._connections:
            self._connections.remove(connection)
