"""How much of a batch the broker takes apart: bounds that keep a bomb from filling memory or the event loop.

A batch that nobody has to look into is stored as it is, whatever it expands to; readers have bounds
of their own. Kafka 4.4 has a setting for this (max.decompressed.message.bytes); here it follows from
the topic's max.message.bytes.
"""

from __future__ import annotations

from typing import Final

MEBIBYTE: Final = 1 << 20
EXPANSION: Final = 16
"""Text and JSON compress about tenfold; whoever sends more than this per byte is refused."""
LEAST_BOUND_BYTES: Final = 16 * MEBIBYTE
MOST_BOUND_BYTES: Final = 256 * MEBIBYTE
LOOKED_UP_BYTES_MAX: Final = 64 * MEBIBYTE
"""What a look-up by time expands, which knows no topic's settings."""
SMALL_BYTES: Final = 32 * 1024
"""What is expanded or compressed at once: more may take longer than a millisecond or two."""
RECORDS_MAX: Final = 500_000
"""As many as take about half a second to look at; clients send 10,000 at most unless told otherwise."""


def decompressed_bytes_max(max_message_bytes: int) -> int:
    """What a batch of a topic may expand to, if it has to be expanded."""
    return min(max(EXPANSION * max_message_bytes, LEAST_BOUND_BYTES), MOST_BOUND_BYTES)
