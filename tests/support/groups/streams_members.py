"""Members of a streams group as Kafka Streams behaves: they own tasks until they revoke them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tests.support.configs import streams_group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.broker.coordinators.groups.streams.topic_configuration import InternalTopic
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    RequestEndpoint,
    RequestTaskIds,
    ResponseTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)

Task: TypeAlias = tuple[str, int]
"""A subtopology id and a partition."""

JOIN = 0
LEAVE = -1

WORD_COUNT = Topology(
    epoch=0,
    subtopologies=(
        Subtopology(subtopology_id="0", source_topics=("lines",), repartition_sink_topics=("words",)),
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=(TopicInfo(name="words"),),
            state_changelog_topics=(
                TopicInfo(
                    name="counts",
                    topic_configs=(KeyValue(key="cleanup.policy", value="compact"),),
                ),
            ),
            copartition_groups=(CopartitionGroup(repartition_source_topics=(0,)),),
        ),
    ),
)
"""Words of lines are counted: one repartition topic and one store."""


STREAMS_CONFIG = streams_group_config(
    group_streams_assignment_interval_ms=0,
    group_streams_initial_rebalance_delay_ms=0,
    group_streams_max_size=2,
)
"""Assignments at once, in groups of at most two members."""


@dataclass
class StreamsClient:
    """One member; `active` and `standby` are the tasks that it runs, `epoch` the one of its last response.

    `missing` are the internal topics that its last heartbeat let the broker create.
    """

    member_id: str
    process_id: str = ""
    topology: Topology = WORD_COUNT
    group_id: str = "g"
    endpoint: tuple[str, int] | None = None
    epoch: int = JOIN
    endpoint_epoch: int = -1
    active: set[Task] = field(default_factory=set)
    standby: set[Task] = field(default_factory=set)
    assigned: tuple[set[Task], set[Task]] = field(default_factory=lambda: (set(), set()))
    missing: tuple[InternalTopic, ...] = ()
    response: StreamsGroupHeartbeatResponse = field(default_factory=StreamsGroupHeartbeatResponse)

    def heartbeat(
        self,
        coordinator: GroupCoordinatorFixture,
        *,
        loses_response: bool = False,
        revokes: bool = True,
        shuts_down: bool = False,
    ) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat and apply the response. Raise the error of a rejected one, after abandoning all.

        Without `revokes`, the member still runs the tasks that it must revoke.
        """
        try:
            response = self.send(coordinator, self.epoch, shuts_down=shuts_down)
        except KafkaError as error:
            if error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.epoch = JOIN
                self._abandon()
            raise
        if not loses_response:
            self._apply(response, revokes=revokes)
        return response

    def send(
        self, coordinator: GroupCoordinatorFixture, epoch: int, *, shuts_down: bool = False
    ) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat with an epoch; do not apply the response."""
        joins = epoch == JOIN
        endpoint = (
            None if self.endpoint is None else RequestEndpoint(host=self.endpoint[0], port=self.endpoint[1])
        )
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            topology=self.topology if joins else None,
            process_id=(self.process_id or f"process-{self.member_id}") if joins else None,
            user_endpoint=endpoint if joins else None,
            client_tags=() if joins else None,
            active_tasks=_task_ids(() if joins else self.active),
            standby_tasks=_task_ids(() if joins else self.standby),
            warmup_tasks=(),
            shutdown_application=shuts_down,
        )
        streams = coordinator.coordinator.streams
        outcome = streams.heartbeat(Client("c", "/127.0.0.1"), request, coordinator.now)
        reply = coordinator.finish(outcome)
        self.missing = reply.topics_to_create
        self.response = reply.response
        return reply.response

    def join_with_topics(self, coordinator: GroupCoordinatorFixture) -> None:
        """Join, create the missing internal topics, and get tasks."""
        self.heartbeat(coordinator)
        create_missing(coordinator, self)
        self.heartbeat(coordinator)

    def leave(self, coordinator: GroupCoordinatorFixture) -> None:
        """Leave the group."""
        self.send(coordinator, LEAVE)
        self.epoch = JOIN
        self._abandon()

    def statuses(self) -> list[int]:
        """Return the status codes of the last response."""
        return [status.status_code for status in self.response.status or ()]

    def _abandon(self) -> None:
        self.active.clear()
        self.standby.clear()
        self.assigned = (set(), set())

    def _apply(self, response: StreamsGroupHeartbeatResponse, *, revokes: bool) -> None:
        """Revoke what is not assigned any more, and then run what is."""
        self.epoch = response.member_epoch
        self.endpoint_epoch = response.endpoint_information_epoch
        if response.active_tasks is not None and response.standby_tasks is not None:
            self.assigned = (_tasks(response.active_tasks), _tasks(response.standby_tasks))
        active, standby = self.assigned
        if revokes or (self.active <= active and self.standby <= standby):
            self.active, self.standby = set(active), set(standby)


def streams_coordinator(**changes: Any) -> GroupCoordinatorFixture:
    """Return a coordinator with the topic `lines`, which has two partitions."""
    fixture = GroupCoordinatorFixture(streams_config=replace(STREAMS_CONFIG, **changes))
    fixture.add_partitions("lines", 2)
    return fixture


def create_missing(coordinator: GroupCoordinatorFixture, member: StreamsClient) -> None:
    """Create the internal topics that the last heartbeat of a member needs."""
    for topic in member.missing:
        coordinator.add_partitions(topic.name, topic.partition_count)


def streams_group(coordinator: GroupCoordinatorFixture, group_id: str = "g") -> StreamsGroup:
    """Return a streams group that exists."""
    group = coordinator.coordinator._groups.streams.find(group_id)
    assert group is not None
    return group


def _task_ids(tasks: Iterable[Task]) -> tuple[RequestTaskIds, ...]:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology_id, index in sorted(tasks):
        by_subtopology.setdefault(subtopology_id, []).append(index)
    return tuple(
        RequestTaskIds(subtopology_id=subtopology_id, partitions=tuple(indexes))
        for subtopology_id, indexes in by_subtopology.items()
    )


def _tasks(tasks: Iterable[ResponseTaskIds]) -> set[Task]:
    return {(each.subtopology_id, index) for each in tasks for index in each.partitions}
