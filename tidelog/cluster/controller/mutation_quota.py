"""The quota of controller mutations, as the commands of the controller see it (KIP-599).

A command calls it with the number of partitions, just before it creates or deletes them. It raises KafkaError
THROTTLING_QUOTA_EXCEEDED if they must not be changed now; that is the error of the one topic. As in Kafka,
requests that only validate count too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

ChargePartitions: TypeAlias = Callable[[int], None]


def charge_nothing(partition_count: int) -> None:
    """Accept all changes; for clients without a quota."""
