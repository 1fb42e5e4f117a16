"""What a leader knows of the others."""

from __future__ import annotations

import pytest

from tests.unit.cluster.quorum.subject import directory, dynamic, static, voter
from tidelog.cluster.quorum.leading import Leading, Position
from tidelog.cluster.quorum.voter_set import ReplicaKey


def leading(*ends: int | None, own: int = 1) -> Leading:
    """Voters 1, 2, ... with logs that end there."""
    voters = {number: Position(voter(number).key, end_offset=end) for number, end in enumerate(ends, start=1)}
    return Leading(
        own=voter(own).key, epoch_start_offset=0, check_quorum_at_ms=0, begin_epoch_at_ms=0, voters=voters
    )


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
def test_what_a_majority_has(ends: tuple[int | None, ...], expected: int | None) -> None:
    assert leading(*ends).replicated_offset() == expected


@pytest.mark.parametrize(("count", "own", "needed"), [(1, 1, 0), (2, 1, 1), (3, 1, 1), (4, 1, 2), (3, 9, 2)])
def test_how_many_must_fetch_besides_the_leader(count: int, own: int, needed: int) -> None:
    assert leading(*[0] * count, own=own).heard_needed == needed


def test_a_follower_is_caught_up_when_it_is_where_the_log_ended_at_its_last_fetch() -> None:
    position = Position(voter(2).key)
    position.fetched(0, 10, 1000)
    assert position.last_caught_up_ms is None
    position.fetched(10, 20, 1100)
    assert position.last_caught_up_ms == 1000
    position.fetched(20, 20, 1200)
    assert position.last_caught_up_ms == 1200


def test_positions_stay_with_replicas_that_become_voters_or_stop_being_so() -> None:
    state = leading(5, 4)
    state.observers[voter(3).key] = Position(voter(3).key, end_offset=3)
    state.heard = {2}
    state.update_voters(dynamic(1, 3))
    assert {number: each.end_offset for number, each in state.voters.items()} == {1: 5, 3: 3}
    assert [key.id for key in state.observers] == [2]
    assert state.heard == set()


def test_a_voter_that_comes_back_with_another_directory_begins_anew() -> None:
    state = leading(5, 4)
    state.update_voters(dynamic(1).with_voter(voter(2, disk=2)))
    assert state.voters[2].end_offset is None
    assert state.voters[2].key == ReplicaKey(2, directory(2, 2))


def test_static_voters_are_known_by_id_until_an_upgrade() -> None:
    state = leading()
    state.update_voters(static(1, 2))
    state.voters[2].end_offset = 4
    state.update_voters(dynamic(1, 2))
    assert state.voters[2].end_offset == 4


def test_observers_are_forgotten_and_bounded() -> None:
    state = leading(5)
    for number in range(10, 16):
        state.observers[ReplicaKey(number)] = Position(ReplicaKey(number), last_fetch_ms=number)
    state.expire_observers(11, 3)
    assert [key.id for key in state.observers] == [13, 14, 15]


def test_successors_are_the_other_voters_with_the_longest_log_first() -> None:
    assert [key.id for key in leading(9, 3, None, 7).successors] == [4, 2, 3]
