"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse


class Client(NamedTuple):
    """The client that sent a request, as DescribeGroups shows it; `host` is an address after a slash."""

    client_id: str
    host: str


@dataclass(slots=True, kw_only=True)
class Member:
    """One member of a group.

    `protocols` are those that it supports, the preferred one first. `awaiting_join` and `awaiting_sync` are
    its requests that wait for their response. `is_new` is true until its first rebalance is complete: until
    then it cannot send heartbeats.
    """

    member_id: str
    group_instance_id: str | None
    client: Client
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    assignment: bytes = b""
    awaiting_join: Pending[JoinGroupResponse] | None = None
    awaiting_sync: Pending[SyncGroupResponse] | None = None
    is_new: bool = False

    def wait_for_join(self, reply: Pending[JoinGroupResponse]) -> None:
        """Keep the reply to the JoinGroup of the member."""
        self.awaiting_join = reply

    def end_join(self) -> Pending[JoinGroupResponse] | None:
        """Remove and return the reply that waits for JoinGroup; None if none waits."""
        reply, self.awaiting_join = self.awaiting_join, None
        return reply

    def wait_for_sync(self, reply: Pending[SyncGroupResponse]) -> None:
        """Keep the reply to the SyncGroup of the member."""
        self.awaiting_sync = reply

    def end_sync(self) -> Pending[SyncGroupResponse] | None:
        """Remove and return the reply that waits for SyncGroup; None if none waits."""
        reply, self.awaiting_sync = self.awaiting_sync, None
        return reply

    def on_rebalance_completed(self) -> None:
        """Accept heartbeats of the member from now on."""
        self.is_new = False

    def assign(self, assignment: bytes) -> None:
        """Set the assignment of the member."""
        self.assignment = assignment

    def rename(self, member_id: str) -> None:
        """Set the new id of a static member that has rejoined."""
        self.member_id = member_id

    def update(
        self,
        protocols: tuple[JoinGroupRequestProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Set what the member has sent with a further JoinGroup."""
        self.protocols = protocols
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its id and assignment over a restart (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_excused_from_heartbeat(self) -> bool:
        """Whether a missing heartbeat is no failure: a request of the member waits, and it is not new."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def protocol_names(self) -> frozenset[str]:
        """Return the names of its protocols."""
        return frozenset(protocol.name for protocol in self.protocols)

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for one protocol."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise AssertionError(f"{self.member_id} has no protocol {protocol_name!r}")

    def vote(self, candidates: Container[str]) -> str:
        """Return its preferred protocol among `candidates`."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise AssertionError(f"{self.member_id} supports none of {candidates}")
