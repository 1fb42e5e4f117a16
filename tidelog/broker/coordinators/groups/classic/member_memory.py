"""The bound on the memory of the members of all groups of a node, in bytes.

The metadata of a member for each protocol, and its assignment, are stored until it leaves or its session
expires, which may take half an hour. Apache Kafka bounds only the number of members. A group may use a
quarter of the memory that the other groups do not use. One group therefore cannot use all memory, and small
groups are accepted when large ones are not.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.coordinators.groups.classic.member import Member
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.join_group import JoinGroupRequestProtocol

MEMBER_BYTES: Final = 1_000
"""The overhead of a member, or of a pending member id, in bytes: objects, keys, a deadline."""
PROTOCOL_BYTES: Final = 250
"""The overhead of a member's protocol in bytes, without its name and metadata."""
_SHARE: Final = 4
"""A group may use one part in this many of the memory that the other groups do not use."""


def size_of(member: Member) -> int:
    """Return the memory of a member in bytes."""
    names = len(member.member_id) + len(member.group_instance_id or "") + len(member.client.client_id)
    return MEMBER_BYTES + names + _size_of_protocols(member.protocols) + len(member.assignment)


def _size_of_protocols(protocols: tuple[JoinGroupRequestProtocol, ...]) -> int:
    return sum(PROTOCOL_BYTES + len(protocol.name) + len(protocol.metadata) for protocol in protocols)


class MemberMemory:
    """Counts the bytes of the members of all groups of a node.

    Invariant: `used_bytes` is the sum of `GroupMemory.used_bytes` over all groups.
    """

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def check(self, group_id: str, group_bytes: int, additional_bytes: int) -> None:
        """Check that a group of `group_bytes` may grow by `additional_bytes`.

        Raise KafkaError GROUP_MAX_SIZE_REACHED if the group would be too large on any node with this limit,
        or COORDINATOR_NOT_AVAILABLE, which clients retry, if there is not enough memory now.
        """
        required = group_bytes + additional_bytes
        allowed = (self.limit_bytes - (self.used_bytes - group_bytes)) // _SHARE
        if required <= allowed:
            return
        largest = self.limit_bytes // _SHARE
        code = ErrorCode.GROUP_MAX_SIZE_REACHED if required > largest else ErrorCode.COORDINATOR_NOT_AVAILABLE
        raise KafkaError(
            code,
            f"the members of group {group_id} need {required} bytes; {allowed} are allowed, "
            f"group.max.member.bytes is {self.limit_bytes}",
        )


class GroupMemory:
    """Counts the bytes of the members and pending member ids of one group, as a part of `memory`."""

    __slots__ = ("_group_id", "_memory", "used_bytes")

    def __init__(self, group_id: str, memory: MemberMemory) -> None:
        self._group_id = group_id
        self._memory = memory
        self.used_bytes = 0

    def check_join(self, protocols: tuple[JoinGroupRequestProtocol, ...], member: Member | None) -> None:
        """Check that there is memory for these protocols, which replace those of `member`.

        Errors: KafkaError, see `MemberMemory.check`.
        """
        additional = MEMBER_BYTES + _size_of_protocols(protocols)
        if member is not None:
            additional -= size_of(member) - len(member.assignment)
        self.check(additional)

    def check(self, additional_bytes: int) -> None:
        """Check that there is memory for `additional_bytes` more.

        Errors: KafkaError, see `MemberMemory.check`.
        """
        if additional_bytes > 0:
            self._memory.check(self._group_id, self.used_bytes, additional_bytes)

    def grow(self, size_bytes: int) -> None:
        """Count `size_bytes` more, or less if negative."""
        self.used_bytes += size_bytes
        self._memory.used_bytes += size_bytes

    def release(self) -> None:
        """Release all bytes of a group that is removed."""
        self.grow(-self.used_bytes)
