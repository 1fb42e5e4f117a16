"""Voter sets: majorities, records, and changes."""

from __future__ import annotations

import pytest

from tests.unit.cluster.quorum.replica_fixture import dynamic, static, voter
from tidelog.cluster.quorum.voter_set import VoterSet


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half_of_the_voters(count: int, majority: int) -> None:
    assert static(*range(count)).majority == majority


def test_a_voters_record_holds_every_field() -> None:
    voters = dynamic(3, 1, 2)
    assert voters.ids == (1, 2, 3)
    assert VoterSet.from_record(voters.to_record()) == voters
    assert VoterSet.from_record(static(1).to_record()) == static(1)


def test_voter_ids_are_unique() -> None:
    with pytest.raises(AssertionError):
        VoterSet.of([voter(1), voter(1, disk=2)])


def test_voter_sets_differ_by_at_most_one_voter() -> None:
    assert dynamic(1, 2).without(2).with_voter(voter(3)) == dynamic(1, 3)
