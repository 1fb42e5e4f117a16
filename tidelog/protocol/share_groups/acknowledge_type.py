"""The decisions of a member of a share group about a record that it has acquired (KIP-932).

Source: AcknowledgeType of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import IntEnum


class AcknowledgeType(IntEnum):
    """The values are those of the requests."""

    GAP = 0
    """There is no record at the offset."""
    ACCEPT = 1
    RELEASE = 2
    """The record is delivered again, unless it was delivered too often."""
    REJECT = 3
    """The record is not delivered again."""
    RENEW = 4
    """The member needs more time: its lock begins again (KIP-1222)."""
