"""Members of the classic protocol as their clients behave, in classic groups and in consumer groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.groups.consumer_members import PartitionId
from tests.support.groups.coordinator import GroupCoordinatorFixture, PendingReply
from tidelog.broker.coordinators.groups.consumer.embedded_protocol import read_assignment
from tidelog.protocol.codec import encode
from tidelog.protocol.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tidelog.protocol.errors import ErrorCode

VERSION = b"\0\0"


@dataclass
class ClassicClient:
    """A member with the assignor `range` that revokes everything before it joins again."""

    topics: tuple[str, ...] = ("t",)
    group_id: str = "g"
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    owned: set[PartitionId] = field(default_factory=set)
    joining: PendingReply | None = None
    syncing: PendingReply | None = None
    led_counts: dict[str, int] | None = None

    def step(self, coordinator: GroupCoordinatorFixture) -> None:
        """Send the next request, unless one waits for its response; apply the responses that have come."""
        if self.joining is None and self.syncing is None:
            if self.generation < 0 or self.led_counts not in (None, self._counts(coordinator)):
                # A leader watches the metadata, and joins again when topics have changed.
                self._join(coordinator)
            else:
                self._heartbeat(coordinator)
        if self.joining is not None and not self.joining.is_waiting:
            self._on_joined(coordinator)
        if self.syncing is not None and not self.syncing.is_waiting:
            self._on_synced(coordinator)

    def abandon(self) -> None:
        """Forget the membership, as after UNKNOWN_MEMBER_ID."""
        self.owned.clear()
        self.generation, self.joining, self.syncing, self.led_counts = -1, None, None, None

    def _join(self, coordinator: GroupCoordinatorFixture) -> None:
        self.owned.clear()
        metadata = VERSION + encode(ConsumerProtocolSubscription(topics=self.topics), 0)
        self.joining = coordinator.join(
            self.group_id,
            self.member_id,
            instance=self.instance_id,
            protocols=(("range", metadata),),
            session_ms=45_000,
        )

    def _heartbeat(self, coordinator: GroupCoordinatorFixture) -> None:
        error = coordinator.heartbeat(
            self.member_id, self.generation, group_id=self.group_id, instance=self.instance_id
        )
        self._on_error(error)

    def _on_error(self, error: ErrorCode) -> None:
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error is not ErrorCode.NONE:
            self.abandon()

    def _on_joined(self, coordinator: GroupCoordinatorFixture) -> None:
        assert self.joining is not None
        reply, self.joining = self.joining.reply, None
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self._join(coordinator)
            return
        if reply.error_code:
            self._on_error(ErrorCode(reply.error_code))
            return
        self.member_id, self.generation = reply.member_id, reply.generation_id
        assignments, self.led_counts = {}, None
        if reply.leader == self.member_id:
            self.led_counts = self._counts(coordinator)
            members = sorted(member.member_id for member in reply.members)
            assignments = {
                member_id: self._share(coordinator, position, len(members))
                for position, member_id in enumerate(members)
            }
        self.syncing = coordinator.sync(
            self.member_id,
            self.generation,
            assignments,
            group_id=self.group_id,
            instance=self.instance_id,
        )

    def _counts(self, coordinator: GroupCoordinatorFixture) -> dict[str, int]:
        """Return the number of partitions of each topic that exists."""
        topics = coordinator.image.topics_by_name
        return {name: len(topics[name].partitions) for name in self.topics if name in topics}

    def _share(self, coordinator: GroupCoordinatorFixture, position: int, member_count: int) -> bytes:
        """Return the assignment of the member at `position`: every `member_count`-th partition."""
        topics = []
        for name in self.topics:
            topic = coordinator.image.topics_by_name.get(name)
            if topic is not None:
                indexes = tuple(range(position, len(topic.partitions), member_count))
                topics.append(AssignmentTopicPartition(topic=name, partitions=indexes))
        return VERSION + encode(ConsumerProtocolAssignment(assigned_partitions=tuple(topics)), 0)

    def _on_synced(self, coordinator: GroupCoordinatorFixture) -> None:
        assert self.syncing is not None
        reply, self.syncing = self.syncing.reply, None
        if reply.error_code:
            self._on_error(ErrorCode(reply.error_code))
            return
        assignment = read_assignment(reply.assignment) if reply.assignment else ConsumerProtocolAssignment()
        self.owned = {
            (coordinator.image.topics_by_name[topic.topic].id, index)
            for topic in assignment.assigned_partitions
            for index in topic.partitions
            if topic.topic in coordinator.image.topics_by_name
        }
