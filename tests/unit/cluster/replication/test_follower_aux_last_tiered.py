"""Followers that start after the last tiered offset (KIP-1023)."""

from __future__ import annotations

from tests.support.replicas.followed_logs import FollowedLog
from tests.support.replicas.tiered_follower import (
    Follower,
    Segment,
    Tier,
    tiered_log,
)
from tidelog.cluster.replication.follower_state import (
    PartitionDelayed,
    ReplicaState,
    RestartAt,
    RestartFromRemote,
)
from tidelog.protocol.errors import ErrorCode


def last_tiered(log: FollowedLog, tier: Tier) -> Follower:
    follower = Follower(log, tier)
    follower.fetcher.prefer_last_tiered_offset(True)
    return follower


def test_kip_1023_an_empty_follower_starts_after_the_last_tiered_offset() -> None:
    tier = Tier(Segment(0, 99, ((0, 0),)), Segment(100, 199, ((0, 100),)))
    follower = last_tiered(tiered_log(), tier)
    follower.on_refused()
    follower.offset(-2, 0)
    follower.offset(-6, 200, epoch=0)
    (action,) = follower.epoch_end(0, 0, 300)
    assert tier.lookups == [(0, 199)]
    restart = follower.auxiliary(action, (0, 0))
    assert isinstance(restart, RestartFromRemote) and (restart.log_start_offset, restart.offset) == (0, 200)


def test_kip_1023_an_empty_follower_starts_after_the_last_tiered_offset_of_a_nonzero_log_start() -> None:
    follower = last_tiered(tiered_log(), Tier(Segment(100, 199, ((0, 100),))))
    follower.on_refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    follower.offset(-1, 300)
    assert follower.state is ReplicaState.BUILDING_REMOTE_LOG_AUX
    follower.offset(-2, 100)
    follower.offset(-6, 200, epoch=0)
    (action,) = follower.epoch_end(0, 0, 300)
    restart = follower.auxiliary(action, (0, 100))
    assert isinstance(restart, RestartFromRemote) and (restart.log_start_offset, restart.offset) == (100, 200)


def test_kip_1023_a_follower_with_records_continues_at_the_local_log_start() -> None:
    tier = Tier(Segment(0, 99, ((0, 0),)))
    follower = last_tiered(tiered_log(4, (0, 0)), tier)
    follower.on_refused()
    follower.offset(-2, 0)
    assert follower.offset(-4, 100, epoch=0) == []
    (action,) = follower.epoch_end(0, 0, 300)
    assert tier.lookups == [(0, 99)]
    restart = follower.auxiliary(action, (0, 0))
    assert isinstance(restart, RestartFromRemote) and (restart.log_start_offset, restart.offset) == (0, 100)


def test_kip_1023_a_leader_with_unknown_remote_log_end_is_queried_again() -> None:
    follower = last_tiered(tiered_log(), Tier())
    follower.on_refused()
    follower.offset(-2, 0)
    (delayed,) = follower.offset(-6, -1)
    assert isinstance(delayed, PartitionDelayed) and "does not know" in delayed.reason


def test_kip_1023_an_older_leader_is_queried_for_its_local_log_start() -> None:
    tier = Tier(Segment(0, 99, ((0, 0),)))
    follower = last_tiered(tiered_log(), tier)
    follower.on_refused()
    follower.offset(-2, 0)
    assert follower.offset(-6, -1, error=ErrorCode.UNSUPPORTED_VERSION) == []
    assert follower.offset(-4, 100, epoch=0) == []
    (action,) = follower.epoch_end(0, 0, 300)
    assert tier.lookups == [(0, 99)]
    restart = follower.auxiliary(action, (0, 0))
    assert isinstance(restart, RestartFromRemote) and (restart.log_start_offset, restart.offset) == (0, 100)


def test_kip_1023_an_empty_remote_log_means_the_leaders_log_start() -> None:
    follower = last_tiered(tiered_log(), Tier())
    follower.on_refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    follower.offset(-1, 300)
    follower.offset(-2, 100)
    (action,) = follower.offset(-6, 100, epoch=0)
    assert isinstance(action, RestartAt) and action.offset == 100
