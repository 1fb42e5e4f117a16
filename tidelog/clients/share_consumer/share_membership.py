"""One member of a share group (KIP-932): the content of its heartbeats and the effect of the responses.

Pure. Members revoke no partitions: several of them read the same one. The states:

    JOINING      epoch 0: the next heartbeat joins    -> MEMBER, FATAL
    MEMBER       has an epoch                         -> JOINING (fenced), LEFT, FATAL
    LEFT         has left, or was idle                -> JOINING
    FATAL        the coordinator rejects the member   -> no other state
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final
from uuid import UUID

from tidelog.clients.groups.heartbeat_schedule import HeartbeatSchedule
from tidelog.clients.transport.failures import failure, known_code
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class MemberState(Enum):
    """The state of the member; the transitions are at the beginning of this file."""

    JOINING = auto()
    MEMBER = auto()
    LEFT = auto()
    FATAL = auto()


class ShareMembership:
    """The member of one share group; `assigned` is its last assignment, partitions by topic id."""

    def __init__(self, group_id: str, member_id: str, rack: str | None) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.state = MemberState.JOINING
        self.assigned: dict[UUID, tuple[int, ...]] = {}
        self._epoch = JOIN_EPOCH
        self._rack = rack
        self._schedule = HeartbeatSchedule()
        self._received_topics: frozenset[str] | None = None
        self._sent_topics: frozenset[str] = frozenset()

    @property
    def is_member(self) -> bool:
        """Whether the coordinator knows the member."""
        return self.state is MemberState.MEMBER

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the member joins or is in the group."""
        return self.state in (MemberState.JOINING, MemberState.MEMBER)

    def request_heartbeat(self) -> None:
        """Send the next heartbeat at once."""
        self._schedule.send_now()

    def rejoin(self) -> None:
        """Join again after the member has left."""
        if self.state is MemberState.LEFT:
            self.state = MemberState.JOINING
            self._schedule.send_now()

    def next_heartbeat_ms(self, now_ms: int) -> int:
        """Return the time until the next heartbeat has to be sent."""
        return self._schedule.remaining_ms(now_ms)

    def request(self, topics: frozenset[str], now_ms: int) -> ShareGroupHeartbeatRequest:
        """Return the next heartbeat; it has the topics if they have changed, or may not have arrived."""
        self._schedule.on_sent(now_ms)
        is_join = self.state is MemberState.JOINING
        has_changed = is_join or topics != self._received_topics
        # Until there is a response, it is unknown what the coordinator has received.
        self._received_topics, self._sent_topics = None, topics
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if is_join else self._epoch,
            rack_id=self._rack if is_join else None,
            subscribed_topic_names=tuple(sorted(topics)) if has_changed else None,
        )

    def on_response(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        """Act on the response to the last heartbeat.

        Raise KafkaError for an error; after one that is not retriable the state is FATAL.
        """
        code = known_code(response.error_code)
        if not self.sends_heartbeats:
            return  # the member has left meanwhile
        if code is ErrorCode.NONE:
            self.state = MemberState.MEMBER
            self._epoch = response.member_epoch
            self._schedule.on_response(response.heartbeat_interval_ms, now_ms)
            self._received_topics = self._sent_topics
            if response.assignment is not None:
                self.assigned = {
                    topic.topic_id: tuple(sorted(topic.partitions))
                    for topic in response.assignment.topic_partitions
                }
            return
        if code in _FENCED:
            self._lose(MemberState.JOINING)
            self._schedule.send_now()
            return
        error = failure(code, f"heartbeat of share group {self.group_id!r}", response.error_message)
        if not error.code.retriable:
            self._lose(MemberState.FATAL)
        raise error

    def leave_request(self) -> ShareGroupHeartbeatRequest | None:
        """Return the heartbeat that leaves the group; None if the member is not in it."""
        if not self.is_member:
            return None
        self._lose(MemberState.LEFT)
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )

    def _lose(self, state: MemberState) -> None:
        self.state = state
        self._epoch = JOIN_EPOCH
        self.assigned = {}
        self._received_topics = None
