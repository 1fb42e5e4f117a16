"""Which metadata partitions are read from where, and which user partitions have caught up. Pure.

Every metadata partition that is needed has a tail, read on and on, and while user partitions are new a
catch-up position behind it:

    metadata partition 7   start ......... catch-up ->          tail ->   end
                                           new partitions        all others

When the catch-up position reaches the tail, the new ones join it and are ready: the tail began, or was, at
the end or beyond where they came. So others neither wait for newcomers nor read anything twice.

Source: ConsumerTask of Apache Kafka 4.3, which reads all again whenever a partition comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.log_ports import LogBounds, ReadRecords
from tidelog.remote.ports.segment_metadata import TopicIdPartition


@dataclass(slots=True)
class Follower:
    """A user partition: records of its metadata partition before `position` are not for it."""

    metadata_partition: int
    position: Offset
    is_joined: bool = False


class Subscription:
    """Invariant: a metadata partition has a tail from when its bounds are known until its followers left."""

    def __init__(self) -> None:
        self.tail: dict[int, Offset] = {}
        self.catch_up: dict[int, Offset] = {}
        self._followers: dict[int, dict[TopicIdPartition, Follower]] = {}
        self._told_by_tail: dict[int, set[TopicIdPartition]] = {}
        """Until the past was read once: who is not here, and of whose deletion the tail has told."""

    def add(self, partition: TopicIdPartition, metadata_partition: int, position: Offset) -> None:
        """A user partition comes, of which everything before `position` is known already."""
        followers = self._followers.setdefault(metadata_partition, {})
        followers.setdefault(partition, Follower(metadata_partition, position))
        self.catch_up.pop(metadata_partition, None)  # begins again where the first of the newcomers is

    def remove(self, partition: TopicIdPartition, metadata_partition: int) -> None:
        """A user partition leaves; its metadata partition is read no more if it was the last."""
        followers = self._followers.get(metadata_partition, {})
        followers.pop(partition, None)
        if not followers:
            self._followers.pop(metadata_partition, None)
            self.tail.pop(metadata_partition, None)
            self.catch_up.pop(metadata_partition, None)
            self._told_by_tail.pop(metadata_partition, None)

    def without_bounds(self) -> list[int]:
        """The metadata partitions with newcomers that nobody has begun to catch up."""
        return [
            metadata_partition
            for metadata_partition, followers in self._followers.items()
            if any(not one.is_joined for one in followers.values())
            and metadata_partition not in self.catch_up
        ]

    def ahead_of_the_log(self, metadata_partition: int, bounds: LogBounds) -> list[TopicIdPartition]:
        """Newcomers that claim to know what was never written here; they know nothing from now on."""
        strange = {
            partition: one
            for partition, one in self._newcomers(metadata_partition).items()
            if one.position > bounds.end
        }
        for follower in strange.values():
            follower.position = 0
        return list(strange)

    def begin(self, metadata_partition: int, bounds: LogBounds) -> list[TopicIdPartition]:
        """Its bounds are known; answers the user partitions that have nothing to catch up."""
        newcomers = self._newcomers(metadata_partition)
        if not newcomers:
            return []
        if metadata_partition not in self.tail:
            self.tail[metadata_partition] = bounds.end
            self._told_by_tail[metadata_partition] = set()
        first = min(follower.position for follower in newcomers.values())
        self.catch_up[metadata_partition] = max(first, bounds.start)
        return self._join(metadata_partition)

    def listeners(self, read: ReadRecords, *, is_tail: bool) -> dict[TopicIdPartition, Offset]:
        """Who hears these records, each from an offset on."""
        followers = self._followers.get(read.metadata_partition, {})
        return {
            partition: follower.position
            for partition, follower in followers.items()
            if follower.is_joined is is_tail
        }

    def hears_deletion(
        self, metadata_partition: int, partition: TopicIdPartition, offset: Offset, *, is_tail: bool
    ) -> bool:
        """Whether a step in the deletion of `partition`, which need not be here, is news.

        The past is read anew for every newcomer, and tells of deletions that are over long since: nobody
        else may take them for new, as what has come behind them would be taken away.
        """
        follower = self._followers.get(metadata_partition, {}).get(partition)
        if follower is not None:
            return follower.is_joined is is_tail and offset >= follower.position
        told_by_tail = self._told_by_tail.get(metadata_partition)
        if not is_tail:
            return told_by_tail is not None and partition not in told_by_tail
        if told_by_tail is not None:
            told_by_tail.add(partition)
        return True

    def advance(self, read: ReadRecords, *, is_tail: bool) -> list[TopicIdPartition]:
        """The records were taken over; answers the user partitions that have caught up by this."""
        cursors = self.tail if is_tail else self.catch_up
        metadata_partition = read.metadata_partition
        if metadata_partition not in cursors:
            return []
        cursors[metadata_partition] = max(cursors[metadata_partition], read.next_offset)
        if not is_tail:
            for follower in self._newcomers(metadata_partition).values():
                follower.position = max(follower.position, read.next_offset)
        return self._join(metadata_partition)

    def followers(self) -> Iterator[tuple[TopicIdPartition, Follower]]:
        """All user partitions."""
        for followers in self._followers.values():
            yield from followers.items()

    def known_up_to(self, partition: TopicIdPartition, metadata_partition: int) -> Offset:
        """The offset before which every record of the user partition has been taken over."""
        follower = self._followers[metadata_partition][partition]
        if not follower.is_joined:
            return follower.position
        return max(follower.position, self.tail[metadata_partition])

    def _newcomers(self, metadata_partition: int) -> dict[TopicIdPartition, Follower]:
        followers = self._followers.get(metadata_partition, {})
        return {partition: one for partition, one in followers.items() if not one.is_joined}

    def _join(self, metadata_partition: int) -> list[TopicIdPartition]:
        position = self.catch_up.get(metadata_partition)
        if position is None or position < self.tail[metadata_partition]:
            return []
        del self.catch_up[metadata_partition]
        self._told_by_tail.pop(metadata_partition, None)
        joined = self._newcomers(metadata_partition)
        for follower in joined.values():
            follower.is_joined = True
            follower.position = max(follower.position, position)
        return list(joined)
