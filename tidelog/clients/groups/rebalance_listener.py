"""What an application may do when partitions come and go."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from tidelog.protocol.ids import TopicPartition


class RebalanceListener(Protocol):
    """Called inside `poll` (and `close`); methods may be plain or async.

    Positions of revoked partitions are still known and may be committed in `on_partitions_revoked`;
    lost ones may belong to another member already, so committing them would fail.
    """

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are given up."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are new."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions were taken away without warning; without this method they count as revoked."""
        return self.on_partitions_revoked(partitions)


def require_listener(listener: object) -> None:
    """TypeError for an object that cannot be told what is assigned and revoked."""
    for method in ("on_partitions_revoked", "on_partitions_assigned"):
        if not callable(getattr(listener, method, None)):
            raise TypeError(f"listener={listener!r} has no method {method}")


class NoListener:
    """For applications that do not care."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing to do."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing to do."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing to do."""


async def settle(result: Awaitable[None] | None) -> None:
    """Await what a listener's method returned, if it is async."""
    if result is not None:
        await result
