"""Who waits for appended records to be committed: futures per partition, in the order of the log."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, Protocol

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition


class CommittingPartition(Protocol):
    """A partition that records were appended to as its leader."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    def committed(self, required_offset: Offset, /) -> ErrorCode | None:
        """None while it is open; NOT_LEADER_OR_FOLLOWER when this node will never know."""


class _Waiting(NamedTuple):
    partition: CommittingPartition
    required_offset: Offset
    future: asyncio.Future[None]


class Commits:
    """Without a deadline: being slow is no error here.

    Bounds: one entry per append of a coordinator that is under way.
    """

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, deque[_Waiting]] = {}

    def wait(self, partition: CommittingPartition, required_offset: Offset) -> asyncio.Future[None]:
        """Done when the partition is committed up to `required_offset`; KafkaError when we lead no more."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if partition.committed(required_offset) is not None:
            _settle(_Waiting(partition, required_offset, future))
        else:
            waiting = self._waiting.setdefault(partition.topic_partition, deque())
            waiting.append(_Waiting(partition, required_offset, future))
        return future

    def check(self, topic_partition: TopicPartition) -> None:
        """Settle what can be settled now, in order."""
        waiting = self._waiting.get(topic_partition)
        if waiting is None:
            return
        while waiting and _settle(waiting[0]):
            waiting.popleft()
        if not waiting:
            del self._waiting[topic_partition]


def _settle(one: _Waiting) -> bool:
    outcome = one.partition.committed(one.required_offset)
    if outcome is None:
        return False
    if not one.future.done():
        if outcome is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            text = f"{one.partition.topic_partition} is led elsewhere now"
            one.future.set_exception(KafkaError(outcome, text))
        else:
            one.future.set_result(None)
    return True
