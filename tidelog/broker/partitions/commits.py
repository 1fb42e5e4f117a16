"""Futures of appends that wait until they are committed, by partition and in the order of the log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition


class AppendedPartition(Protocol):
    """A partition to which this node, its leader, has appended records."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    def commit_outcome(self, required_offset: Offset, /) -> ErrorCode | None:
        """Return the outcome of an append that ends at `required_offset`; None if it is not known yet.

        NOT_LEADER_OR_FOLLOWER means that this node cannot find out whether the records are committed.
        """


class _PendingCommit(NamedTuple):
    """An append to `partition` that ends at `required_offset`; `future` is done when it is committed."""

    partition: AppendedPartition
    required_offset: Offset
    future: asyncio.Future[None]


class PendingCommits:
    """The appends of coordinators that wait to be committed.

    There is no deadline, because a slow commit is not an error of the append.
    Bounds: one entry per coordinator append in progress.
    """

    def __init__(self) -> None:
        self._pending: dict[TopicPartition, deque[_PendingCommit]] = {}

    def wait(self, partition: AppendedPartition, required_offset: Offset) -> asyncio.Future[None]:
        """Return a future that is done when the partition is committed up to `required_offset`.

        The future raises KafkaError if this node ceases to be the leader.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if partition.commit_outcome(required_offset) is not None:
            _complete(_PendingCommit(partition, required_offset, future))
        else:
            waiting = self._pending.setdefault(partition.topic_partition, deque())
            waiting.append(_PendingCommit(partition, required_offset, future))
        return future

    def check(self, topic_partition: TopicPartition) -> None:
        """Complete the futures of the partition whose outcome is known, in order."""
        waiting = self._pending.get(topic_partition)
        if waiting is None:
            return
        while waiting and _complete(waiting[0]):
            waiting.popleft()
        if not waiting:
            del self._pending[topic_partition]

    def check_all(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Do what `check` does for each of `topic_partitions`."""
        if self._pending:
            for topic_partition in topic_partitions:
                self.check(topic_partition)


def _complete(commit: _PendingCommit) -> bool:
    """Complete the future if its outcome is known; return whether it is."""
    outcome = commit.partition.commit_outcome(commit.required_offset)
    if outcome is None:
        return False
    if not commit.future.done():
        if outcome is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            text = f"This node is no longer the leader of {commit.partition.topic_partition}"
            commit.future.set_exception(KafkaError(outcome, text))
        else:
            commit.future.set_result(None)
    return True
