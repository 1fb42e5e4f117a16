"""Members of a share group as their client knows them, and the results of initialized states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.share.persister import InitialState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

JOIN = 0
LEAVE = -1


@dataclass
class ShareClient:
    """One member as its client knows it. `to_initialize` are the states of its last heartbeat."""

    member_id: str
    topics: tuple[str, ...] = ("t",)
    epoch: int = JOIN
    assigned: set[tuple[UUID, int]] = field(default_factory=set)
    to_initialize: list[InitialState] = field(default_factory=list)

    @property
    def partitions(self) -> list[int]:
        """The indexes of the assigned partitions of all topics."""
        return sorted(index for _, index in self.assigned)

    def heartbeat(
        self,
        coordinator: GroupCoordinatorFixture,
        epoch: int | None = None,
        *,
        is_full: bool = False,
        loses_response: bool = False,
    ) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat, and apply the response. Raise the error of a rejected one.

        A member that was removed joins again with its next heartbeat.
        """
        sent_epoch = self.epoch if epoch is None else epoch
        request = ShareGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=sent_epoch,
            subscribed_topic_names=self.topics if is_full or sent_epoch == JOIN else None,
        )
        try:
            outcome = coordinator.coordinator.shares.heartbeat(Client("c", "h"), request, coordinator.now)
            response, self.to_initialize = coordinator.finish(outcome)
        except KafkaError as error:
            if epoch is None and error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.epoch = JOIN
                self.assigned.clear()
            raise
        if loses_response:
            return response
        self.epoch = response.member_epoch
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self.assigned = {(topic.topic_id, index) for topic in topics for index in topic.partitions}
        return response

    def join_and_initialize(self, coordinator: GroupCoordinatorFixture) -> None:
        """Join, initialize the states, and get the assignment of the initialized partitions."""
        self.heartbeat(coordinator)
        initialize(coordinator, self.to_initialize)
        self.heartbeat(coordinator)


def initialize(
    coordinator: GroupCoordinatorFixture, states: Iterable[InitialState], failed: Iterable[InitialState] = ()
) -> None:
    """Let the group know the results of the initialization of states."""
    writes = coordinator.coordinator.shares.offsets.on_initialized(
        "g", [each.share_partition for each in states], [each.share_partition for each in failed]
    )
    coordinator.perform(writes)
