"""The bound on the memory of all parked requests of a node, in bytes.

Each operation states what it keeps while it is parked. When all of them together keep more than the
limit, the largest expires early, as if its delay had passed: a Fetch returns what can be read by then, a
Produce with acks=all REQUEST_TIMED_OUT. So many small requests wait undisturbed while a few large ones are
sent back.

Operations are kept in classes by the power of two of their size, the oldest first, so that adding, removing
and choosing take the same short time for any number of them. I/O: none.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.purgatory.purgatory import DelayedOperation

logger = logging.getLogger(__name__)

PARKED_BYTES_MAX: Final = 128 * 1024 * 1024
"""The default of max.parked.request.bytes."""
_LOGGED_EVERY: Final = 1_000


class ParkedMemory:
    """Counts the bytes of parked operations and chooses which one has to expire early.

    Invariant: `used_bytes` is the sum of `size_bytes` of the operations that were added and not removed.
    """

    __slots__ = ("_classes", "expired_early", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int = PARKED_BYTES_MAX) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.expired_early = 0
        self._classes: dict[int, dict[DelayedOperation, None]] = {}

    def add(self, operation: DelayedOperation) -> None:
        """Count an operation that is parked."""
        size_bytes = operation.size_bytes
        self.used_bytes += size_bytes
        same_size = self._classes.get(size_bytes.bit_length())
        if same_size is None:
            same_size = self._classes[size_bytes.bit_length()] = {}
        same_size[operation] = None

    def remove(self, operation: DelayedOperation) -> None:
        """Count an operation no more."""
        size_class = operation.size_bytes.bit_length()
        same_size = self._classes[size_class]
        del same_size[operation]
        if not same_size:
            del self._classes[size_class]
        self.used_bytes -= operation.size_bytes

    def keep_to_limit(self) -> None:
        """Have the largest operations expire until the others fit."""
        while self.used_bytes > self.limit_bytes:
            operation = next(iter(self._classes[max(self._classes)]))
            if self.expired_early % _LOGGED_EVERY == 0:
                logger.warning(
                    "parked requests keep %d bytes, max.parked.request.bytes is %d: %s of %d bytes ends",
                    self.used_bytes,
                    self.limit_bytes,
                    type(operation).__name__,
                    operation.size_bytes,
                )
            self.expired_early += 1
            operation.expire()
