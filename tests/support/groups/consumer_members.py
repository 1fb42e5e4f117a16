"""Members of a consumer group as their clients behave: they own partitions until they revoke them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.subscriptions import ResolvedExpression
from tidelog.broker.coordinators.shared.regular_expression import RegularExpression
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)

PartitionId: TypeAlias = tuple[UUID, int]

JOIN = 0
LEAVE = -1
LEAVE_FOR_A_WHILE = -2


def resolve(coordinator: GroupCoordinatorFixture, group_id: str, expressions: Iterable[str]) -> None:
    """Resolve expressions as the service does, and write the result."""
    image = coordinator.image
    topics = {
        expression: ResolvedExpression(
            frozenset(filter(RegularExpression(expression).matches, image.topics_by_name)),
            image.offset,
            coordinator.now_ms,
        )
        for expression in expressions
    }
    coordinator.perform(coordinator.coordinator.consumers.on_resolved(group_id, topics))


@dataclass
class MemberClient:
    """One member; `owned` are the partitions that it reads, `epoch` the one of its last response.

    After a lost response it sends everything, so that the coordinator repeats its assignment.
    """

    member_id: str
    topics: tuple[str, ...] | None = ("t",)
    expression: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    group_id: str = "g"
    epoch: int = JOIN
    owned: set[PartitionId] = field(default_factory=set)
    assigned: set[PartitionId] = field(default_factory=set)
    is_changed: bool = False
    sends_everything: bool = False

    def heartbeat(
        self, coordinator: GroupCoordinatorFixture, *, loses_response: bool = False, revokes: bool = True
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat and apply the response. Raise the error of a rejected one, after abandoning all.

        Without `revokes`, the member still reads the partitions that it must revoke.
        """
        try:
            response = self.send(coordinator, self.epoch)
        except KafkaError as error:
            if error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.epoch = JOIN
                self.owned.clear()
                self.assigned.clear()
            raise
        self.sends_everything = loses_response
        if not loses_response:
            self._apply(response, revokes=revokes)
        return response

    def send(self, coordinator: GroupCoordinatorFixture, epoch: int) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat with an epoch; do not apply the response."""
        is_full = epoch == JOIN or self.sends_everything
        is_changed = is_full or self.is_changed
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if is_full else -1,
            subscribed_topic_names=self.topics if is_changed else None,
            subscribed_topic_regex=self.expression if is_changed else None,
            server_assignor=self.assignor,
            topic_partitions=self._owned_topics(),
        )
        consumers = coordinator.coordinator.consumers
        outcome = consumers.heartbeat(Client("c", "/127.0.0.1"), request, 1, coordinator.now)
        response, to_resolve = coordinator.finish(outcome)
        if to_resolve:
            resolve(coordinator, self.group_id, to_resolve)
        return response

    def leave(self, coordinator: GroupCoordinatorFixture, epoch: int = LEAVE) -> None:
        """Leave the group."""
        self.owned.clear()
        self.assigned.clear()
        self.send(coordinator, epoch)
        self.epoch = JOIN

    def subscribe(self, topics: tuple[str, ...] | None, expression: str | None) -> None:
        """Change the subscription; the next heartbeat sends it."""
        self.topics, self.expression, self.is_changed = topics, expression, True

    def indexes(self) -> list[int]:
        """Return the indexes of the partitions that the member owns."""
        return sorted(index for _, index in self.owned)

    def _apply(self, response: ConsumerGroupHeartbeatResponse, *, revokes: bool) -> None:
        """Revoke what is not assigned any more, and then own what is."""
        self.epoch = response.member_epoch
        self.is_changed = False
        if response.assignment is not None:
            self.assigned = {
                (topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            }
        if revokes or self.owned <= self.assigned:
            self.owned = set(self.assigned)

    def _owned_topics(self) -> tuple[RequestTopicPartitions, ...]:
        if self.epoch == JOIN:
            return ()
        topics: dict[UUID, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            topics.setdefault(topic_id, []).append(index)
        return tuple(
            RequestTopicPartitions(topic_id=topic_id, partitions=tuple(indexes))
            for topic_id, indexes in topics.items()
        )
