"""The JoinGroup and SyncGroup requests of a group whose response must wait."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.classic.member import Member
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse


class ParkedRequests:
    """The waiting requests of one group: at most one join and one sync of each member.

    Invariant: `_joins` has an entry for every member whose `awaiting_join` is set.
    """

    def __init__(self) -> None:
        self._joins: dict[Pending[JoinGroupResponse], Member] = {}

    @property
    def join_count(self) -> int:
        """The number of members whose JoinGroup waits for its response."""
        return len(self._joins)

    def member_of_join(self, reply: Pending[JoinGroupResponse]) -> Member | None:
        """Return the member whose JoinGroup waits for this reply; None if none does."""
        return self._joins.get(reply)

    def park_join(self, member: Member, reply: Pending[JoinGroupResponse]) -> None:
        """Park a JoinGroup of `member`. An earlier one that waits gets REBALANCE_IN_PROGRESS."""
        self.complete_join(
            member,
            JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS),
        )
        member.wait_for_join(reply)
        self._joins[reply] = member

    def complete_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Complete the JoinGroup of `member`, if one waits."""
        reply = member.end_join()
        if reply is not None:
            del self._joins[reply]
            reply.complete(response)

    def park_sync(self, member: Member, reply: Pending[SyncGroupResponse]) -> None:
        """Park a SyncGroup of `member`. An earlier one that waits gets REBALANCE_IN_PROGRESS."""
        self.complete_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.wait_for_sync(reply)

    def complete_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Complete the SyncGroup of `member`. Return whether one was waiting."""
        reply = member.end_sync()
        if reply is None:
            return False
        reply.complete(response)
        return True
