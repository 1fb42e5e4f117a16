"""Bounds for the expansion of batches: a compressed batch must not fill the memory or block the event loop.

A batch whose records the broker need not read is stored unread, regardless of its decompressed size; readers
have their own bounds. Kafka 4.4 has a setting for this (max.decompressed.message.bytes). Here the bound is
derived from the topic's max.message.bytes.
"""

from __future__ import annotations

from typing import Final

MEBIBYTE: Final = 1 << 20
EXPANSION: Final = 16
"""Text and JSON compress about tenfold; batches with a higher ratio than this are rejected."""
LEAST_BOUND_BYTES: Final = 16 * MEBIBYTE
MOST_BOUND_BYTES: Final = 256 * MEBIBYTE
LOOKED_UP_BYTES_MAX: Final = 64 * MEBIBYTE
"""The bound for a look-up by timestamp, which does not depend on the topic's settings."""
SMALL_BYTES: Final = 32 * 1024
"""The most that is expanded or compressed in one step: more may take longer than two milliseconds."""
RECORDS_MAX: Final = 500_000
"""Records that can be read in about half a second; clients send at most 10,000 by default."""


def decompressed_bytes_max(max_message_bytes: int) -> int:
    """Return the largest expanded size in bytes of a batch that must be expanded."""
    return min(max(EXPANSION * max_message_bytes, LEAST_BOUND_BYTES), MOST_BOUND_BYTES)
