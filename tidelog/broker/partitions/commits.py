"""Futures of appends that wait until they are committed, by partition and in the order of the log."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, Protocol

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition


class AppendedPartition(Protocol):
    """A partition to which its leader, this node, has appended records."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    def commit_outcome(self, required_offset: Offset, /) -> ErrorCode | None:
        """Return None while the records before `required_offset` may still be committed here.

        NOT_LEADER_OR_FOLLOWER means that this node will never know whether they are committed.
        """


class _Waiting(NamedTuple):
    partition: AppendedPartition
    required_offset: Offset
    future: asyncio.Future[None]


class Commits:
    """The appends of coordinators that wait to be committed.

    There is no deadline: a slow commit is not an error here.
    Bounds: one entry per coordinator append in progress.
    """

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, deque[_Waiting]] = {}

    def wait(self, partition: AppendedPartition, required_offset: Offset) -> asyncio.Future[None]:
        """Return a future that is done when the partition is committed up to `required_offset`.

        The future raises KafkaError if this node ceases to be the leader.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if partition.commit_outcome(required_offset) is not None:
            _complete(_Waiting(partition, required_offset, future))
        else:
            waiting = self._waiting.setdefault(partition.topic_partition, deque())
            waiting.append(_Waiting(partition, required_offset, future))
        return future

    def check(self, topic_partition: TopicPartition) -> None:
        """Complete the futures of the partition whose outcome is known, in order."""
        waiting = self._waiting.get(topic_partition)
        if waiting is None:
            return
        while waiting and _complete(waiting[0]):
            waiting.popleft()
        if not waiting:
            del self._waiting[topic_partition]


def _complete(waiting: _Waiting) -> bool:
    """Complete the future if its outcome is known; return whether it is."""
    outcome = waiting.partition.commit_outcome(waiting.required_offset)
    if outcome is None:
        return False
    if not waiting.future.done():
        if outcome is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            text = f"This node is no longer the leader of {waiting.partition.topic_partition}"
            waiting.future.set_exception(KafkaError(outcome, text))
        else:
            waiting.future.set_result(None)
    return True
