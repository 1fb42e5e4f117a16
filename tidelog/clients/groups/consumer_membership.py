"""One member of a consumer group (KIP-848): the content of its heartbeats and the effect of the responses.

Pure. The coordinator assigns partitions in the responses. The application first revokes the partitions that
are not assigned any more; the next heartbeat lists the partitions that it still owns. The states:

    JOINING      epoch 0: the next heartbeat joins    -> MEMBER, FATAL
    MEMBER       has an epoch                         -> LOST, LEFT, FATAL
    LOST         was fenced: must abandon everything  -> JOINING
    LEFT         has left, or was idle                -> JOINING
    FATAL        the coordinator rejects the member   -> no other state

Source: KIP-848; KIP-1082 (the client chooses the member id).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final
from uuid import UUID

from tidelog.clients.groups.heartbeat_schedule import HeartbeatSchedule
from tidelog.clients.transport.failures import failure, known_code
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
NO_EPOCH: Final = -1
_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})

PartitionIds = dict[UUID, tuple[int, ...]]


class MemberState(Enum):
    """The state of the member; the transitions are at the beginning of this file."""

    JOINING = auto()
    MEMBER = auto()
    LOST = auto()
    LEFT = auto()
    FATAL = auto()


class ConsumerMembership:
    """The member of one group.

    `assigned` is the last assignment of the coordinator, by topic id. `generation` is the member epoch.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        group_instance_id: str | None,
        rack: str | None,
        assignor: str | None,
        rebalance_timeout_ms: int,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.state = MemberState.JOINING
        self.generation = self.reading_generation = NO_EPOCH
        self.assigned: PartitionIds = {}
        self._rack = rack
        self._assignor = assignor
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._schedule = HeartbeatSchedule()
        self._sent_topics: frozenset[str] | None = None
        self._sent_pattern: str | None = None
        self._has_sent_pattern = False
        self._sent_partitions: PartitionIds | None = None
        self._sends_everything = True

    # --- state ----------------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        """Whether the coordinator knows the member."""
        return self.state is MemberState.MEMBER

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the member joins or is in the group."""
        return self.state in (MemberState.JOINING, MemberState.MEMBER)

    @property
    def may_commit(self) -> bool:
        """Whether the member has an epoch."""
        return self.is_member

    def on_abandoned(self) -> None:
        """Record that the application has abandoned the partitions of a lost membership; join again."""
        assert self.state in (MemberState.LOST, MemberState.LEFT), self.state
        self.state = MemberState.JOINING
        self._schedule.send_now()

    def on_applied(self) -> None:
        """Record that the application reads the partitions that are assigned now."""
        self.reading_generation = self.generation

    def on_commit_error(self, code: ErrorCode) -> None:
        """Act on the error of a commit: the next response shows whether the member is fenced."""
        if code in _FENCED:
            self._schedule.send_now()

    # --- heartbeats -----------------------------------------------------------------------

    def request_heartbeat(self) -> None:
        """Send the next heartbeat at once."""
        self._schedule.send_now()

    def next_heartbeat_ms(self, now_ms: int) -> int:
        """Return the time until the next heartbeat has to be sent."""
        return self._schedule.remaining_ms(now_ms)

    def request(
        self, topics: frozenset[str], owned: PartitionIds, now_ms: int, *, pattern: str | None = None
    ) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat of a member that reads the partitions `owned`.

        It subscribes to `topics`, and to the topics that the coordinator finds with `pattern`. After a join
        or a lost response the heartbeat has everything, otherwise only what has changed.
        """
        self._schedule.on_sent(now_ms)
        is_join = self.state is MemberState.JOINING
        everything = is_join or self._sends_everything
        # Until there is a response, it is unknown what the coordinator has received.
        self._sends_everything = True
        changed_topics = everything or topics != self._sent_topics
        changed_pattern = everything or pattern != self._sent_pattern
        changed_partitions = everything or owned != self._sent_partitions
        self._sent_topics, self._sent_pattern, self._sent_partitions = topics, pattern, owned
        self._has_sent_pattern |= pattern is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if is_join else self.generation,
            instance_id=self.group_instance_id,
            rack_id=self._rack if everything else None,
            rebalance_timeout_ms=self._rebalance_timeout_ms if everything else -1,
            subscribed_topic_names=tuple(sorted(topics)) if changed_topics else None,
            subscribed_topic_regex=self._regex(pattern) if changed_pattern else None,
            server_assignor=self._assignor if everything else None,
            topic_partitions=_topic_partitions({} if is_join else owned) if changed_partitions else None,
        )

    def _regex(self, pattern: str | None) -> str | None:
        """Return the field of a pattern; "" removes an earlier one, and None fits to older coordinators."""
        return "" if pattern is None and self._has_sent_pattern else pattern

    def on_response(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        """Act on a response. Raise KafkaError for an error after which the request may be sent again.

        After any other error than fencing the state is FATAL, and the error is raised.
        """
        code = known_code(response.error_code)
        if not self.sends_heartbeats:
            return  # the member has left meanwhile
        if code is ErrorCode.NONE:
            self.state = MemberState.MEMBER
            self.generation = response.member_epoch
            self._schedule.on_response(response.heartbeat_interval_ms, now_ms)
            self._sends_everything = False
            if response.assignment is not None:
                self.assigned = {
                    topic.topic_id: tuple(sorted(topic.partitions))
                    for topic in response.assignment.topic_partitions
                }
            return
        if code in _FENCED:
            self._lose(MemberState.LOST)
            return
        error = failure(code, f"heartbeat of group {self.group_id!r}", response.error_message)
        if not error.code.retriable:
            self._lose(MemberState.FATAL)
        raise error

    def _lose(self, state: MemberState) -> None:
        self.state = state
        self.generation = self.reading_generation = NO_EPOCH
        self.assigned = {}
        self._sends_everything = True

    # --- leaving --------------------------------------------------------------------------

    def leave_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """Return the heartbeat that leaves the group; None if the member is not in it.

        A static member leaves for a while: it may return with its partitions.
        """
        if not self.is_member:
            return None
        epoch = LEAVE_EPOCH if self.group_instance_id is None else STATIC_LEAVE_EPOCH
        self._lose(MemberState.LEFT)
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.group_instance_id,
        )


def _topic_partitions(partitions: PartitionIds) -> tuple[RequestTopicPartitions, ...]:
    return tuple(
        RequestTopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in partitions.items()
    )


def by_topic(partitions: Iterable[tuple[UUID, int]]) -> PartitionIds:
    """Return partitions by topic id, in order."""
    grouped: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions):
        grouped.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in grouped.items()}
