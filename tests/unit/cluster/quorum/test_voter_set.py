"""Sets of voters."""

from __future__ import annotations

import pytest

from tests.unit.cluster.quorum.subject import dynamic, static, voter
from tidelog.cluster.quorum.voter_set import VoterSet


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majorities(count: int, majority: int) -> None:
    assert static(*range(count)).majority == majority


def test_a_record_holds_all_of_it() -> None:
    voters = dynamic(3, 1, 2)
    assert voters.ids == (1, 2, 3)
    assert VoterSet.from_record(voters.to_record()) == voters
    assert VoterSet.from_record(static(1).to_record()) == static(1)


def test_no_id_occurs_twice() -> None:
    with pytest.raises(AssertionError):
        VoterSet.of([voter(1), voter(1, disk=2)])


def test_a_set_changes_by_one_voter() -> None:
    assert dynamic(1, 2).without(2).with_voter(voter(3)) == dynamic(1, 3)
