"""The bound on the memory of all parked requests of a node, in bytes.

Each operation states how much memory it uses while it is parked. When all of them together exceed the
limit, the largest expires early, as if its delay had passed. A Fetch then returns the available data, and a
Produce with acks=all fails with REQUEST_TIMED_OUT. A few large requests get their responses early, so that
many small requests can wait until their delay has passed.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Final, Protocol

from tidelog.base.size_classes import SizeClasses

logger = logging.getLogger(__name__)

PARKED_BYTES_MAX: Final = 128 * 1024 * 1024
"""The default of max.parked.request.bytes."""
_LOGGED_EVERY: Final = 1_000


class ParkedOperation(Hashable, Protocol):
    """The part of a delayed operation that its memory bound needs."""

    @property
    def size_bytes(self) -> int:
        """The memory that the operation uses while it is parked."""

    def expire(self) -> None:
        """Complete the operation as if its delay had passed."""


class ParkedMemory:
    """Counts the bytes of parked operations and expires the largest ones when the limit is exceeded."""

    __slots__ = ("_operations", "early_expirations", "limit_bytes")

    def __init__(self, limit_bytes: int = PARKED_BYTES_MAX) -> None:
        self.limit_bytes = limit_bytes
        self.early_expirations = 0
        self._operations: SizeClasses[ParkedOperation] = SizeClasses()

    @property
    def used_bytes(self) -> int:
        """The memory that all parked operations use."""
        return self._operations.total_bytes

    def add(self, operation: ParkedOperation) -> None:
        """Count an operation that has been parked."""
        self._operations.add(operation, operation.size_bytes)

    def remove(self, operation: ParkedOperation) -> None:
        """Stop counting an operation."""
        self._operations.remove(operation)

    def enforce_limit(self) -> None:
        """Expire the largest operations until the others fit within `limit_bytes`."""
        while self.used_bytes > self.limit_bytes:
            operation, size_bytes = self._operations.largest()
            if self.early_expirations % _LOGGED_EVERY == 0:
                logger.warning(
                    "Parked requests use %d bytes, max.parked.request.bytes is %d; expiring %s of %d bytes",
                    self.used_bytes,
                    self.limit_bytes,
                    type(operation).__name__,
                    size_bytes,
                )
            self.early_expirations += 1
            operation.expire()
