"""Followers of logs with gaps by compaction; each replica compacts its own log."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.compaction import compact, keyed_batch, latest_of, read_log, roll
from tests.support.replicas.replica_pair import ReplicaPair, bytes_of
from tests.support.waiting import eventually
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.log.partition_log import PartitionLog

T0 = TopicPartition("t", 0)


@pytest.fixture
async def pair() -> AsyncIterator[ReplicaPair]:
    pair = ReplicaPair()
    yield pair
    await pair.fetchers.close()


def write(pair: ReplicaPair, *records: tuple[str, str | None]) -> None:
    pair.leader.manager.partition(T0).append(keyed_batch(records), 1, NOW_MS)


def compact_all(log: PartitionLog) -> None:
    """Seal and compact the whole log, as if all replicas had it."""
    log.advance_high_watermark(log.log_end_offset)
    roll(log)
    compact(log)


async def logs_of(pair: ReplicaPair) -> tuple[PartitionLog, PartitionLog]:
    """Return both logs when the follower has all records and the leader has received its position."""
    leader, follower = pair.logs(T0)
    await eventually(lambda: follower.high_watermark == leader.log_end_offset == leader.high_watermark)
    return leader, follower


def _has_reconnected(pair: ReplicaPair) -> bool:
    """Advance the time of the follower; return whether it has another connection."""
    pair.follower.clock.now_ms += 20
    return len(pair.connections) == 2


async def test_a_new_follower_copies_a_compacted_log_unchanged(pair: ReplicaPair) -> None:
    pair.create("t", cleanup_policy="compact")
    leader, _ = pair.logs(T0)
    for number in range(5):
        write(pair, ("a", f"{number}"))
        write(pair, ("b", f"{number}"), ("c", None))
        leader.roll(NOW_MS)
    compact_all(leader)
    pair.begin()
    leader, follower = await logs_of(pair)
    assert bytes_of(follower) == bytes_of(leader)
    write(pair, ("a", "new"))
    leader, follower = await logs_of(pair)
    assert read_log(follower) == read_log(leader)
    assert follower.log_end_offset == 16


async def test_a_follower_continues_after_offsets_removed_by_compaction(
    pair: ReplicaPair,
) -> None:
    pair.create("t", cleanup_policy="compact")
    pair.begin()
    write(pair, ("a", "0"))
    leader, follower = await logs_of(pair)
    pair.unreachable = 1
    pair.connections[0].break_off()
    await eventually(lambda: pair.unreachable == 0)
    for number in range(1, 6):
        write(pair, ("a", f"{number}"))
    write(pair, ("b", "0"))
    compact_all(leader)
    assert [record.offset for record in read_log(leader)] == [5, 6]
    await eventually(lambda: _has_reconnected(pair))
    leader, follower = await logs_of(pair)
    assert [record.offset for record in read_log(follower)] == [0, 5, 6]
    assert latest_of(read_log(follower)) == latest_of(read_log(leader))
    compact_all(follower)
    assert read_log(follower) == read_log(leader)
