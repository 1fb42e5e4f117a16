"""A node serves from memory only while its leadership is confirmed."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tidelog.broker.partitions.leadership_lease import LeadershipLease
from tidelog.broker.partitions.partition import Partition
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

SESSION_MS = 9_000


class FollowedLeader:
    """A leader partition whose followers fetched last at `at_ms`."""

    topic_partition = TopicPartition("__consumer_offsets", 0)
    is_leader = True

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def is_followed_since(self, since_ms: int) -> bool:
        return self.at_ms >= since_ms


@pytest.mark.parametrize(
    ("confirmed_ms", "last_followed_ms", "is_likely"),
    [(100_000, 0, True), (0, 100_000, True), (95_500, 0, True), (95_499, 95_499, False), (0, 0, False)],
    ids=["heartbeat", "followers", "half a session", "longer", "cut off"],
)
def test_a_heartbeat_or_a_follower_fetch_confirms_leadership_for_half_a_session(
    confirmed_ms: int, last_followed_ms: int, is_likely: bool
) -> None:
    lease, _ = lease_at(100_000, confirmed_ms)
    assert lease.is_likely(cast(Partition, FollowedLeader(last_followed_ms))) is is_likely


@pytest.mark.parametrize(("confirmed_ms", "is_confirmed"), [(95_500, True), (95_499, False)])
def test_a_heartbeat_confirms_leadership_for_half_a_session(confirmed_ms: int, is_confirmed: bool) -> None:
    lease, _ = lease_at(100_000, confirmed_ms)
    assert lease.is_confirmed is is_confirmed


async def test_heartbeats_of_a_follower_confirm_nothing() -> None:
    lease, _ = lease_at(100_000, confirmed_ms=100_000)
    partition = FollowedLeader(0)
    partition.is_leader = False
    assert not lease.is_likely(cast(Partition, partition))
    with pytest.raises(KafkaError):
        await lease.confirm(cast(Partition, partition))


async def test_a_recent_heartbeat_confirms_leadership_at_once() -> None:
    lease, _ = lease_at(100_000, confirmed_ms=95_500)
    confirmation = asyncio.ensure_future(lease.confirm(cast(Partition, FollowedLeader(0))))
    await asyncio.sleep(0)
    assert confirmation.done() and confirmation.exception() is None


async def test_without_heartbeats_a_follower_must_fetch_after_the_request() -> None:
    """A fetch before that does not count: the session may have ended since."""
    lease, clock = lease_at(100_000, confirmed_ms=95_499)
    partition = FollowedLeader(100_000)
    waiting = asyncio.ensure_future(lease.confirm(cast(Partition, partition)))
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.now_ms += 300
    partition.at_ms = clock.monotonic_ms()
    await waiting


async def test_a_leader_without_recent_heartbeats_is_not_confirmed() -> None:
    lease, clock = lease_at(100_000, confirmed_ms=0)
    waiting = asyncio.ensure_future(lease.confirm(cast(Partition, FollowedLeader(100_000))))
    await asyncio.sleep(0)
    clock.now_ms += SESSION_MS // 2 + 1
    with pytest.raises(KafkaError) as error:
        await waiting
    assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def lease_at(now_ms: int, confirmed_ms: int) -> tuple[LeadershipLease, ManualClock]:
    clock = ManualClock(monotonic_ms=now_ms)
    return LeadershipLease(clock, SESSION_MS, lambda: confirmed_ms), clock
