"""Futures of appended records: completed in order, failed when leadership is lost."""

from __future__ import annotations

import pytest

from tidelog.broker.partitions.commits import PendingCommits
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition


class FakePartition:
    """A partition that is committed up to `high_watermark` while this node is its leader."""

    topic_partition = TopicPartition("t", 0)

    def __init__(self) -> None:
        self.high_watermark = 0
        self.is_leader = True
        self.has_enough_replicas = True

    def commit_outcome(self, required_offset: int) -> ErrorCode | None:
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < required_offset:
            return None
        return ErrorCode.NONE if self.has_enough_replicas else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_an_offset_below_the_high_watermark_completes_at_once() -> None:
    partition, commits = FakePartition(), PendingCommits()
    partition.high_watermark = 5
    assert commits.wait(partition, 5).done()


async def test_appends_complete_when_the_high_watermark_passes_them() -> None:
    partition, commits = FakePartition(), PendingCommits()
    first, second = commits.wait(partition, 3), commits.wait(partition, 6)
    commits.check(partition.topic_partition)
    assert not first.done()
    partition.high_watermark = 4
    commits.check(partition.topic_partition)
    assert (first.done(), second.done()) == (True, False)
    partition.high_watermark, partition.has_enough_replicas = 6, False
    commits.check(partition.topic_partition)
    await second


async def test_loss_of_leadership_fails_all_waiting_appends() -> None:
    partition, commits = FakePartition(), PendingCommits()
    waiting = [commits.wait(partition, offset) for offset in (3, 6)]
    partition.is_leader = False
    commits.check(partition.topic_partition)
    for future in waiting:
        with pytest.raises(KafkaError) as refused:
            await future
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    late = commits.wait(partition, 9)
    with pytest.raises(KafkaError):
        await late
