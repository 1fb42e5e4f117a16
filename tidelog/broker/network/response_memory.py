"""The bound on the memory of responses that peers do not read, over all connections.

Bytes that cannot be sent at once wait in memory, except slices of files. A connection whose peer does not
read has one waiting response, which may be as large as a Fetch from remote storage. Over the limit, the
connection with the largest response is closed. A peer that reads rarely has many unsent bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Protocol

from tidelog.base.log_limit import LogLimit
from tidelog.base.size_classes import SizeClasses

logger = logging.getLogger(__name__)


class BlockedConnection(Hashable, Protocol):
    """A connection whose peer does not read; implemented by Connection."""

    peer: str

    def abort(self) -> None:
        """Close the connection and drop its unsent bytes."""
        ...


class ResponseMemory:
    """Counts the unsent bytes in memory of blocked connections."""

    __slots__ = ("_connections", "_log_limit", "limit_bytes")

    def __init__(self, limit_bytes: int, log_limit: LogLimit) -> None:
        self._log_limit = log_limit
        self.limit_bytes = limit_bytes
        self._connections: SizeClasses[BlockedConnection] = SizeClasses()

    @property
    def used_bytes(self) -> int:
        """The unsent bytes; each connection counts with its bytes when it was blocked."""
        return self._connections.total_bytes

    def add(self, connection: BlockedConnection, unsent_bytes: int) -> None:
        """Count the unsent bytes of a blocked connection; this replaces its previous count."""
        self.discard(connection)
        self._connections.add(connection, unsent_bytes)
        while self.used_bytes > self.limit_bytes:
            largest, size_bytes = self._connections.largest()
            self._connections.remove(largest)
            self._log_limit.log(
                logger,
                logging.WARNING,
                "Closing connection from %s: %d response bytes are unsent, and the unsent bytes of all "
                "connections exceed max.unsent.response.bytes (%d)",
                largest.peer,
                size_bytes,
                self.limit_bytes,
                extra={"peer": largest.peer},
            )
            largest.abort()

    def discard(self, connection: BlockedConnection) -> None:
        """Stop counting a connection that is no longer blocked, or has ended."""
        if connection in self._connections:
            self._connections.remove(connection)
