"""The members of a group whose partitions the coordinator assigns (KIP-848): lookup, size, targets.

I/O: none.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from tidelog.protocol.errors import ErrorCode, KafkaError

MemberT = TypeVar("MemberT")

TargetPartitions: TypeAlias = Mapping[UUID, frozenset[int]]
"""The partitions of the target assignment of one member, by topic id."""

NO_TARGET: Final[TargetPartitions] = MappingProxyType({})


def existing_member(members: Mapping[str, MemberT], member_id: str, group_id: str) -> MemberT:
    """Return a member by its id. Raise UNKNOWN_MEMBER_ID if the group has none with this id."""
    member = members.get(member_id)
    if member is None:
        text = f"Member {member_id} is not a member of group {group_id}."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
    return member


def check_room(members: Mapping[str, object], member_id: str, members_max: int, kind: str) -> None:
    """Raise GROUP_MAX_SIZE_REACHED if a group has no room for a new member.

    `kind` is the type of the group in the text, such as "consumer".
    """
    if len(members) >= members_max and member_id not in members:
        text = f"The {kind} group has reached its maximum capacity of {members_max} members."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
