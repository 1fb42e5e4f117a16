"""What a commit needs from the membership in a group, of either protocol."""

from __future__ import annotations

from typing import Protocol

from tidelog.protocol.errors import ErrorCode


class CommittingMember(Protocol):
    """The member of a group that commits offsets.

    `generation` is its generation, or its member epoch (KIP-848). `reading_generation` is that of the
    partitions that the application reads; -1 if it is not a member.
    """

    member_id: str
    group_instance_id: str | None
    generation: int
    reading_generation: int

    @property
    def may_commit(self) -> bool:
        """Whether the member has a valid assignment."""
        ...

    def on_commit_error(self, code: ErrorCode) -> None:
        """Act on the error of a commit in the current generation."""
