"""The lookup of members, and the maximum size of a group."""

from __future__ import annotations

import pytest

from tidelog.broker.coordinators.groups.members.lookup import check_room, existing_member
from tidelog.protocol.errors import ErrorCode, KafkaError

MEMBERS = {"a": 1, "b": 2}


def test_a_member_is_found_by_its_id_and_others_are_unknown() -> None:
    assert existing_member(MEMBERS, "b", "g") == 2
    with pytest.raises(KafkaError, match="Member c is not a member of group g") as failure:
        existing_member(MEMBERS, "c", "g")
    assert failure.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_accepts_only_its_members() -> None:
    check_room(MEMBERS, "a", 2, "share")
    check_room(MEMBERS, "c", 3, "share")
    with pytest.raises(KafkaError, match="share group has reached its maximum capacity of 2") as failure:
        check_room(MEMBERS, "c", 2, "share")
    assert failure.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
