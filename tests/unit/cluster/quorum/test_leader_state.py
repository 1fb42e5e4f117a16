"""The positions of other replicas in the leader's state."""

from __future__ import annotations

import pytest

from tests.support.configs import quorum_settings
from tests.unit.cluster.quorum.replica_fixture import directory, dynamic, static, voter
from tidelog.cluster.quorum.leader_state import LeaderState, ReplicaPosition, ReplicaPositions
from tidelog.cluster.quorum.voter_set import ReplicaKey


def positions(*ends: int | None, own: int = 1, observers_max: int = 1000) -> ReplicaPositions:
    """Return positions of the voters 1, 2, ... with these log ends."""
    settings = quorum_settings(observers_max=observers_max, observer_session_timeout_ms=9)
    result = ReplicaPositions(own, dynamic(*range(1, len(ends) + 1)), settings)
    for number, end in enumerate(ends, start=1):
        if end is not None:
            result.voters[number].set_end_offset(end)
    return result


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((5,), 5),
        ((5, 3), 3),
        ((5, 3, 4), 4),
        ((9, 5, 4, 3), 4),
        ((9, 8, 7, 1, 1), 7),
        ((5, None, 4), 4),
        ((5, None, None), None),
        ((), None),
    ],
)
def test_the_replicated_offset_is_on_a_majority(ends: tuple[int | None, ...], expected: int | None) -> None:
    assert positions(*ends).replicated_offset == expected


@pytest.mark.parametrize(("count", "own", "needed"), [(1, 1, 0), (2, 1, 1), (3, 1, 1), (4, 1, 2), (3, 9, 2)])
def test_a_majority_including_the_leader_must_fetch(count: int, own: int, needed: int) -> None:
    assert positions(*[0] * count, own=own).fetching_voters_needed == needed


def test_a_follower_is_caught_up_at_the_log_end_of_the_leaders_previous_fetch() -> None:
    position = ReplicaPosition(voter(2).key)
    position.on_fetch(0, 10, None, 1000)
    assert position.last_caught_up_ms is None
    position.on_fetch(10, 20, None, 1100)
    assert position.last_caught_up_ms == 1000
    position.on_fetch(20, 20, None, 1200)
    assert position.last_caught_up_ms == 1200


def test_positions_are_kept_when_replicas_become_voters_or_observers() -> None:
    state = LeaderState(
        1, dynamic(1, 2), epoch_start_offset=0, settings=quorum_settings(voters_max=5), now_ms=0
    )
    for number, end in ((1, 5), (2, 4)):
        state.positions.voters[number].set_end_offset(end)
    state.positions.observer(voter(3).key, 0).set_end_offset(3)
    state.check_quorum.on_fetch(2, 2, 0)
    assert state.check_quorum._fetching_voters == {2}
    state.update_voters(dynamic(1, 3))
    assert {number: each.end_offset for number, each in state.positions.voters.items()} == {1: 5, 3: 3}
    assert [key.id for key in state.positions.observers] == [2]
    assert state.check_quorum._fetching_voters == set()


def test_a_voter_with_another_directory_id_has_a_new_position() -> None:
    state = positions(5, 4)
    state.update_voters(dynamic(1).with_voter(voter(2, disk=2)))
    assert state.voters[2].end_offset is None
    assert state.voters[2].key == ReplicaKey(2, directory(2, 2))


def test_static_voters_match_by_id_until_an_upgrade() -> None:
    state = positions()
    state.update_voters(static(1, 2))
    state.voters[2].set_end_offset(4)
    state.update_voters(dynamic(1, 2))
    assert state.voters[2].end_offset == 4


def test_observers_expire_and_are_bounded() -> None:
    state = positions(5, observers_max=100)
    for number in range(10, 16):
        state.observer(ReplicaKey(number), number)
    assert [key.id for key in state.observers] == [10, 11, 12, 13, 14, 15]
    state.expire_observers(20)
    assert [key.id for key in state.observers] == [11, 12, 13, 14, 15]
    bounded = positions(5, observers_max=3)
    for number in range(10, 16):
        bounded.observer(ReplicaKey(number), number)
    assert [key.id for key in bounded.observers] == [13, 14, 15]


def test_preferred_successors_are_ordered_by_log_end() -> None:
    assert [key.id for key in positions(9, 3, None, 7).successors] == [4, 2, 3]
