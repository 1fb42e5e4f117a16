"""The bound on what the members of all classic groups of a node keep in memory, in bytes.

A member keeps what it says about itself for each of its protocols, and its assignment, until it leaves or its
session ends, which may be half an hour later; Apache Kafka bounds only the number of members. A group may
have a quarter of what the other groups leave of the limit: so one group cannot keep all others out, and small
groups find room when large ones do not.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.coordinators.groups.member import Member
from tidelog.protocol.errors import ErrorCode, KafkaError

MEMBER_BYTES: Final = 1_000
"""What a member or an id that was given to one keeps besides its own data: objects, keys, a deadline."""
_SHARE: Final = 4


def size_of(member: Member) -> int:
    """Return the bytes that a member keeps."""
    protocols = sum(len(protocol.name) + len(protocol.metadata) for protocol in member.protocols)
    names = len(member.member_id) + len(member.group_instance_id or "") + len(member.client.client_id)
    return MEMBER_BYTES + names + protocols + len(member.assignment)


class MemberMemory:
    """Counts the bytes of members over all groups of a node.

    Invariant: `used_bytes` is the sum of `member_bytes` of all groups.
    """

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def check(self, group_id: str, group_bytes: int, additional_bytes: int) -> None:
        """Check that a group of `group_bytes` may grow by `additional_bytes`.

        Errors: KafkaError GROUP_MAX_SIZE_REACHED if the group is too large for any node with this limit,
        COORDINATOR_NOT_AVAILABLE, which clients retry, if there is no room now.
        """
        wanted = group_bytes + additional_bytes
        allowed = (self.limit_bytes - (self.used_bytes - group_bytes)) // _SHARE
        if wanted <= allowed:
            return
        largest = self.limit_bytes // _SHARE
        code = ErrorCode.GROUP_MAX_SIZE_REACHED if wanted > largest else ErrorCode.COORDINATOR_NOT_AVAILABLE
        raise KafkaError(
            code,
            f"the members of {group_id} would keep {wanted} bytes, allowed are {allowed}; "
            f"group.max.member.bytes is {self.limit_bytes}",
        )
