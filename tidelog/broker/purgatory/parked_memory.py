"""The bound on the memory of all parked requests of a node, in bytes.

Each operation states what it keeps while it is parked. When all of them together keep more than the
limit, the largest expires early, as if its delay had passed: a Fetch returns what can be read by then, a
Produce with acks=all REQUEST_TIMED_OUT. Many small requests therefore wait undisturbed while a few
large ones are answered early.
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
        """The memory that the operation keeps while it is parked."""

    def expire(self) -> None:
        """Complete as after the delay."""


class ParkedMemory:
    """Counts the bytes of parked operations and chooses which one has to expire early."""

    __slots__ = ("_operations", "expired_early", "limit_bytes")

    def __init__(self, limit_bytes: int = PARKED_BYTES_MAX) -> None:
        self.limit_bytes = limit_bytes
        self.expired_early = 0
        self._operations: SizeClasses[ParkedOperation] = SizeClasses()

    @property
    def used_bytes(self) -> int:
        """The memory that all parked operations keep."""
        return self._operations.total_bytes

    def add(self, operation: ParkedOperation) -> None:
        """Count an operation that has been parked."""
        self._operations.add(operation, operation.size_bytes)

    def remove(self, operation: ParkedOperation) -> None:
        """Stop counting an operation."""
        self._operations.remove(operation)

    def keep_to_limit(self) -> None:
        """Expire the largest operations until the others fit."""
        while self.used_bytes > self.limit_bytes:
            operation, size_bytes = self._operations.largest()
            if self.expired_early % _LOGGED_EVERY == 0:
                logger.warning(
                    "Parked requests keep %d bytes, max.parked.request.bytes is %d; expiring %s of %d bytes",
                    self.used_bytes,
                    self.limit_bytes,
                    type(operation).__name__,
                    size_bytes,
                )
            self.expired_early += 1
            operation.expire()
