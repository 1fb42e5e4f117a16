"""Positions and caught-up times of followers, derived from their fetches."""

from __future__ import annotations

from tidelog.cluster.replication.leader_positions import NEVER_MS, UNKNOWN_OFFSET, FollowerPosition

LAG_MS = 30_000


def follower() -> FollowerPosition:
    return FollowerPosition(2)


def fetch(position: FollowerPosition, offset: int, leader_end: int, now_ms: int, epoch: int = 102) -> None:
    position.record_fetch(offset, 0, leader_end, epoch, now_ms)


def test_a_follower_that_never_fetched_is_not_caught_up() -> None:
    assert not follower().is_caught_up(0, now_ms=0, lag_time_max_ms=LAG_MS)


def test_a_fetch_at_the_log_end_is_caught_up_at_that_time() -> None:
    position = follower()
    fetch(position, 10, leader_end=10, now_ms=500)
    assert position.log_end_offset == 10
    assert position.last_caught_up_ms == 500
    assert position.broker_epoch == 102


def test_a_fetch_that_reaches_the_previous_log_end_is_caught_up_as_of_the_previous_fetch() -> None:
    position = follower()
    fetch(position, 0, leader_end=10, now_ms=100)
    assert position.last_caught_up_ms == NEVER_MS
    fetch(position, 10, leader_end=20, now_ms=200)
    assert position.last_caught_up_ms == 100
    fetch(position, 15, leader_end=30, now_ms=300)
    assert position.last_caught_up_ms == 100


def test_a_follower_always_one_batch_behind_stays_caught_up() -> None:
    position = follower()
    for step in range(100):
        fetch(position, step * 10, leader_end=(step + 1) * 10, now_ms=step * 1_000)
    assert position.is_caught_up(1_000, now_ms=99_000, lag_time_max_ms=LAG_MS)


def test_a_follower_slower_than_the_appends_leaves_after_the_maximum_lag() -> None:
    position = follower()
    fetch(position, 100, leader_end=100, now_ms=0)
    for step in range(1, 40):
        fetch(position, 100 + step, leader_end=100 + step * 10, now_ms=step * 1_000)
    assert not position.is_caught_up(1_000, now_ms=LAG_MS + 1_001, lag_time_max_ms=LAG_MS)


def test_a_follower_at_the_log_end_stays_caught_up_without_appends() -> None:
    position = follower()
    fetch(position, 10, leader_end=10, now_ms=0)
    assert position.is_caught_up(10, now_ms=10 * LAG_MS, lag_time_max_ms=LAG_MS)
    assert not position.is_caught_up(11, now_ms=10 * LAG_MS, lag_time_max_ms=LAG_MS)


def test_a_new_leader_has_no_offsets_and_gives_isr_members_the_full_lag_time() -> None:
    position = follower()
    fetch(position, 10, leader_end=10, now_ms=0)
    position.on_new_leader_epoch(50, is_new_leader=True, is_in_sync=True, now_ms=1_000)
    assert position.log_end_offset == UNKNOWN_OFFSET
    assert position.broker_epoch is None
    assert position.is_caught_up(50, now_ms=1_000 + LAG_MS, lag_time_max_ms=LAG_MS)
    assert not position.is_caught_up(50, now_ms=1_001 + LAG_MS, lag_time_max_ms=LAG_MS)


def test_a_replica_outside_the_isr_at_election_does_not_hold_the_high_watermark() -> None:
    position = follower()
    position.on_new_leader_epoch(50, is_new_leader=True, is_in_sync=False, now_ms=1_000)
    assert not position.is_caught_up(50, now_ms=1_000, lag_time_max_ms=LAG_MS)


def test_a_re_elected_leader_keeps_known_offsets() -> None:
    position = follower()
    fetch(position, 10, leader_end=12, now_ms=0)
    position.on_new_leader_epoch(12, is_new_leader=False, is_in_sync=False, now_ms=1_000)
    assert (position.log_end_offset, position.broker_epoch) == (10, 102)
    fetch(position, 12, leader_end=20, now_ms=1_100)
    assert position.last_caught_up_ms == NEVER_MS


def test_a_follower_followed_at_the_time_of_the_response_before_its_last_fetch() -> None:
    position = follower()
    fetch(position, 0, leader_end=0, now_ms=100)
    assert position.last_followed_ms == NEVER_MS
    fetch(position, 0, leader_end=0, now_ms=600)
    assert position.last_followed_ms == 100


def test_a_fetch_received_before_a_pause_of_the_leader_does_not_prove_following_after_it() -> None:
    position = follower()
    fetch(position, 0, leader_end=0, now_ms=100)
    fetch(position, 0, leader_end=0, now_ms=200)
    # The leader was paused for a minute; it has only the fetch that waited in its socket.
    fetch(position, 0, leader_end=0, now_ms=60_000)
    assert position.last_followed_ms == 200
