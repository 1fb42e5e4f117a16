"""The table of legal moves."""

from __future__ import annotations

from tests.unit.cluster.quorum.subject import static
from tidelog.cluster.quorum.states import TRANSITIONS, Nominee, State


def test_only_a_candidate_is_elected_and_only_a_leader_resigns() -> None:
    assert [state for state in State if State.LEADER in TRANSITIONS[state]] == [State.CANDIDATE]
    assert [state for state in State if State.RESIGNED in TRANSITIONS[state]] == [State.LEADER]


def test_every_state_gives_way_to_a_higher_epoch() -> None:
    for state in State:
        assert {State.UNATTACHED, State.FOLLOWER} <= TRANSITIONS[state]


def test_an_election_is_won_or_lost_by_a_majority() -> None:
    nominee = Nominee(static(1, 2, 3, 4), 0, granted={1})
    assert not nominee.is_elected
    assert nominee.unheard == [2, 3, 4]
    nominee.granted |= {2, 3}
    assert nominee.is_elected
    nominee = Nominee(static(1, 2, 3, 4), 0, granted={1}, rejected={2})
    assert not nominee.is_rejected
    nominee.rejected.add(3)
    assert nominee.is_rejected
