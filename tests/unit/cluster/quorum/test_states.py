"""The table of legal transitions, and the role data of a nominee."""

from __future__ import annotations

from tests.unit.cluster.quorum.replica_fixture import static
from tidelog.cluster.quorum.states import TRANSITIONS, NomineeState, State


def test_only_a_candidate_is_elected_and_only_a_leader_resigns() -> None:
    assert [state for state in State if State.LEADER in TRANSITIONS[state]] == [State.CANDIDATE]
    assert [state for state in State if State.RESIGNED in TRANSITIONS[state]] == [State.LEADER]


def test_every_state_ends_with_a_higher_epoch() -> None:
    for state in State:
        assert {State.UNATTACHED, State.FOLLOWER} <= TRANSITIONS[state]


def test_an_election_is_won_or_lost_by_a_majority() -> None:
    nominee = NomineeState(static(1, 2, 3, 4), 0, [1])
    assert not nominee.is_elected
    assert nominee.unrecorded_voters == [2, 3, 4]
    nominee.record_vote(2, is_granted=True)
    nominee.record_vote(3, is_granted=True)
    assert nominee.is_elected
    assert nominee.granting_voters == [1, 2, 3]
    nominee = NomineeState(static(1, 2, 3, 4), 0, [1])
    nominee.record_vote(2, is_granted=False)
    assert not nominee.is_rejected
    nominee.record_vote(3, is_granted=False)
    assert nominee.is_rejected
