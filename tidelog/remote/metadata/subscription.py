"""Which metadata partitions are read from which offset, and which user partitions have caught up. Pure.

Every metadata partition that is needed has a tail, which is read continuously. While it has new user
partitions, it also has a catch-up position before the tail:

    metadata partition 7   start ......... catch-up ->          tail ->   end
                                           new partitions        all others

When the catch-up position reaches the tail, the new partitions join the tail and are ready: the tail has
always been at or after the end of the log at the time when they were added. Therefore other partitions
neither wait for new ones nor read anything twice.

Source: ConsumerTask of Apache Kafka 4.3, which reads everything again for each new partition.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.log_ports import LogBounds, ReadRecords
from tidelog.remote.ports.segment_metadata import TopicIdPartition


@dataclass(slots=True)
class Follower:
    """A user partition; it ignores records of its metadata partition before `position`."""

    metadata_partition: int
    position: Offset
    is_joined: bool = False


class Subscription:
    """The positions of the metadata partitions, and their user partitions.

    Invariant: a metadata partition has a tail from when its bounds are known until its last user partition
    leaves.
    """

    def __init__(self) -> None:
        self.tail: dict[int, Offset] = {}
        self.catch_up: dict[int, Offset] = {}
        self._followers: dict[int, dict[TopicIdPartition, Follower]] = {}
        self._deletions_in_tail: dict[int, set[TopicIdPartition]] = {}
        """Until the first catch-up has ended: partitions of other nodes whose deletion the tail contained."""

    def add(self, partition: TopicIdPartition, metadata_partition: int, position: Offset) -> None:
        """Add a user partition whose records before `position` are known already."""
        followers = self._followers.setdefault(metadata_partition, {})
        followers.setdefault(partition, Follower(metadata_partition, position))
        self.catch_up.pop(metadata_partition, None)  # restarts at the first position of the new partitions

    def remove(self, partition: TopicIdPartition, metadata_partition: int) -> None:
        """Remove a user partition; its metadata partition is no longer read if it was the last one."""
        followers = self._followers.get(metadata_partition, {})
        followers.pop(partition, None)
        if not followers:
            self._followers.pop(metadata_partition, None)
            self.tail.pop(metadata_partition, None)
            self.catch_up.pop(metadata_partition, None)
            self._deletions_in_tail.pop(metadata_partition, None)

    def without_bounds(self) -> list[int]:
        """Return the metadata partitions with new user partitions whose catch-up has not begun."""
        return [
            metadata_partition
            for metadata_partition, followers in self._followers.items()
            if any(not follower.is_joined for follower in followers.values())
            and metadata_partition not in self.catch_up
        ]

    def reset_ahead_of_log(self, metadata_partition: int, bounds: LogBounds) -> list[TopicIdPartition]:
        """Reset new user partitions whose position is after the log's end to its start; return them."""
        ahead = {
            partition: follower
            for partition, follower in self._new_partitions(metadata_partition).items()
            if follower.position > bounds.end
        }
        for follower in ahead.values():
            follower.position = 0
        return list(ahead)

    def begin(self, metadata_partition: int, bounds: LogBounds) -> list[TopicIdPartition]:
        """Begin the catch-up of a metadata partition; return the user partitions that are ready at once."""
        new_partitions = self._new_partitions(metadata_partition)
        if not new_partitions:
            return []
        if metadata_partition not in self.tail:
            self.tail[metadata_partition] = bounds.end
            self._deletions_in_tail[metadata_partition] = set()
        first = min(follower.position for follower in new_partitions.values())
        self.catch_up[metadata_partition] = max(first, bounds.start)
        return self._join(metadata_partition)

    def receivers(self, read: ReadRecords, *, is_tail: bool) -> dict[TopicIdPartition, Offset]:
        """Return the user partitions that receive these records, each with its first offset."""
        followers = self._followers.get(read.metadata_partition, {})
        return {
            partition: follower.position
            for partition, follower in followers.items()
            if follower.is_joined is is_tail
        }

    def receives_deletion(
        self, metadata_partition: int, partition: TopicIdPartition, offset: Offset, *, is_tail: bool
    ) -> bool:
        """Return whether a record about the deletion of `partition`, on any node, must be applied.

        Old records are read again for every new partition, and contain deletions that finished long ago. They
        must not be applied to other partitions: segments that were copied afterwards would be removed.
        """
        follower = self._followers.get(metadata_partition, {}).get(partition)
        if follower is not None:
            return follower.is_joined is is_tail and offset >= follower.position
        seen_in_tail = self._deletions_in_tail.get(metadata_partition)
        if not is_tail:
            return seen_in_tail is not None and partition not in seen_in_tail
        if seen_in_tail is not None:
            seen_in_tail.add(partition)
        return True

    def advance(self, read: ReadRecords, *, is_tail: bool) -> list[TopicIdPartition]:
        """Advance past the applied records of `read`; return the user partitions that are now caught up."""
        cursors = self.tail if is_tail else self.catch_up
        metadata_partition = read.metadata_partition
        if metadata_partition not in cursors:
            return []
        cursors[metadata_partition] = max(cursors[metadata_partition], read.next_offset)
        if not is_tail:
            for follower in self._new_partitions(metadata_partition).values():
                follower.position = max(follower.position, read.next_offset)
        return self._join(metadata_partition)

    def followers(self) -> Iterator[tuple[TopicIdPartition, Follower]]:
        """Return all user partitions."""
        for followers in self._followers.values():
            yield from followers.items()

    def known_up_to(self, partition: TopicIdPartition, metadata_partition: int) -> Offset:
        """Return the offset before which every record of the user partition has been applied."""
        follower = self._followers[metadata_partition][partition]
        if not follower.is_joined:
            return follower.position
        return max(follower.position, self.tail[metadata_partition])

    def _new_partitions(self, metadata_partition: int) -> dict[TopicIdPartition, Follower]:
        followers = self._followers.get(metadata_partition, {})
        return {partition: follower for partition, follower in followers.items() if not follower.is_joined}

    def _join(self, metadata_partition: int) -> list[TopicIdPartition]:
        position = self.catch_up.get(metadata_partition)
        if position is None or position < self.tail[metadata_partition]:
            return []
        del self.catch_up[metadata_partition]
        self._deletions_in_tail.pop(metadata_partition, None)
        new_partitions = self._new_partitions(metadata_partition)
        for follower in new_partitions.values():
            follower.is_joined = True
            follower.position = max(follower.position, position)
        return list(new_partitions)
