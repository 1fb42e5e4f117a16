"""The callbacks of an application when partitions are assigned or revoked."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from tidelog.protocol.ids import TopicPartition


class RebalanceListener(Protocol):
    """Callbacks that `poll` and `close` call; the methods may be async.

    The positions of revoked partitions are still available and may be committed in `on_partitions_revoked`.
    Lost partitions may already belong to another member, so their positions cannot be committed.
    """

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that are revoked."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that are newly assigned."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that were lost; without this method, they are handled as revoked."""
        return self.on_partitions_revoked(partitions)


def require_listener(listener: object) -> None:
    """Raise TypeError for an object that has not the methods of a listener."""
    for method in ("on_partitions_revoked", "on_partitions_assigned"):
        if not callable(getattr(listener, method, None)):
            raise TypeError(f"listener={listener!r} has no method {method}")


class NoListener:
    """The listener of an application that has none."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing."""


async def await_result(result: Awaitable[None] | None) -> None:
    """Await the result of a listener's method, if it is async."""
    if result is not None:
        await result
