"""The partitions that a member of a group owns, and the listener that is called when they change (shell).

Used with the classic and with the consumer protocol. The listener is called while the application waits in
`poll` or `close`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.clients.consumer.partition_state import AssignedPartitions
from tidelog.clients.groups.rebalance_listener import NoListener, RebalanceListener, await_result
from tidelog.protocol.ids import TopicPartition


class OwnedPartitions:
    """Changes the assigned partitions of one consumer, and calls the listener of its application."""

    def __init__(self, assigned: AssignedPartitions) -> None:
        self._assigned = assigned
        self._listener: RebalanceListener = NoListener()

    def set_listener(self, listener: RebalanceListener | None) -> None:
        """Call this listener from now on; None for no listener."""
        self._listener = NoListener() if listener is None else listener

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that are assigned now."""
        return self._assigned.topic_partitions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions, without calling the listener."""
        self._assigned.set(partitions)

    async def revoke(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """Call the listener, then remove the partitions, also if the listener raises an error.

        `lost`: the member was removed from its group, so that others may already read the partitions.
        """
        if not partitions:
            return
        revoked = set(partitions)
        try:
            on_revoked = self._listener.on_partitions_revoked
            if lost:
                # As in Kafka's client, also for listeners that do not inherit from RebalanceListener.
                on_revoked = getattr(self._listener, "on_partitions_lost", on_revoked)
            await await_result(on_revoked(partitions))
        finally:
            self._assigned.set(each for each in self.partitions if each not in revoked)

    async def on_assigned(self, added: Sequence[TopicPartition]) -> None:
        """Call the listener after partitions have been added."""
        await await_result(self._listener.on_partitions_assigned(added))
