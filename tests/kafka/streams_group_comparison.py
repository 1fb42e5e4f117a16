"""The same requests of streams groups at Apache Kafka and at Tidelog, and their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tests.kafka.group_requests import delete_group, errors_of_consumers
from tests.kafka.separate_brokers import SeparateBroker
from tests.kafka.stored_records import record_kinds
from tests.support.groups.streams_members import WORD_COUNT
from tests.support.waiting import wait_until
from tidelog.broker.coordinators.groups.records.streams_group_records import StreamsGroupRecord
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import offset_commit as commit
from tidelog.protocol.messages import offset_fetch as fetch
from tidelog.protocol.messages import streams_group_heartbeat as beat
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tidelog.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "5",
}


TOPICS = {"lines": 4, "words": 4, "counts": 4, "right": 2}


ROUNDS_TO_STABLE = 20


_RETRIED = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


_GROUP = 32


Task: TypeAlias = tuple[str, int]


Tasks: TypeAlias = tuple[set[Task], set[Task]]
"""Active and standby tasks."""


class Broker:
    """One broker with the topics of the application."""

    def __init__(self, broker: SeparateBroker) -> None:
        self.broker = broker
        self.client = broker.client
        broker.clients.create_topic("__consumer_offsets", [[1]], cleanup_policy="compact")
        self.group = "probe"
        wait_until(lambda: ErrorCode(self.described().error_code) not in _RETRIED)

    def heartbeat(self, **fields: Any) -> beat.StreamsGroupHeartbeatResponse:
        """Send a heartbeat."""
        request = beat.StreamsGroupHeartbeatRequest(group_id=self.group, **fields)
        return self.client.send_request(request, 0, beat.StreamsGroupHeartbeatResponse)

    def described(self) -> Any:
        """Return the described group."""
        request = StreamsGroupDescribeRequest(group_ids=(self.group,))
        return self.client.send_request(request, 0, StreamsGroupDescribeResponse).groups[0]

    def summary(self) -> tuple[object, ...]:
        """Return what is the same for every choice of the assignor."""
        group = self.described()
        active, standby = Counter[Task](), Counter[Task]()
        for member in group.members:
            active.update(tasks_of(member.assignment.active_tasks))
            standby.update(tasks_of(member.assignment.standby_tasks))
            assert member.assignment == member.target_assignment
        return (
            ErrorCode(group.error_code),
            group.error_message,
            group.group_state,
            group.group_epoch,
            group.assignment_epoch,
            without_counts(group.topology),
            active,
            standby,
            sorted(
                (
                    member.member_id,
                    member.member_epoch,
                    member.topology_epoch,
                    member.process_id,
                    member.rack_id,
                    member.instance_id,
                    member.user_endpoint,
                    member.client_tags,
                    member.is_classic,
                )
                for member in group.members
            ),
        )

    def set_standby_replicas(self, count: int) -> object:
        """Set the number of standby replicas of the group; return the error."""
        config = AlterableConfig(name="streams.num.standby.replicas", config_operation=0, value=str(count))
        resource = AlterConfigsResource(resource_type=_GROUP, resource_name=self.group, configs=(config,))
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        response = self.client.send_request(request, 1, IncrementalAlterConfigsResponse)
        return ErrorCode(response.responses[0].error_code)

    def commit(self, member_id: str, epoch: int, topic: str, version: int = 9) -> ErrorCode:
        """Commit an offset of one partition; return its error."""
        partition = commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = commit.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=(commit.OffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
        )
        response = self.client.send_request(request, version, commit.OffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def fetch(self, member_id: str | None, epoch: int) -> object:
        """Fetch all offsets; return them or the error."""
        request = fetch.OffsetFetchRequest(
            groups=(
                fetch.OffsetFetchRequestGroup(
                    group_id=self.group, member_id=member_id, member_epoch=epoch, topics=None
                ),
            )
        )
        (group,) = self.client.send_request(request, 9, fetch.OffsetFetchResponse).groups
        return ErrorCode(group.error_code), sorted(
            (topic.name, each.partition_index, each.committed_offset)
            for topic in group.topics
            for each in topic.partitions
        )

    def delete_group(self) -> ErrorCode:
        """Delete the group; return the error."""
        return delete_group(self.client, self.group)

    def listed(self, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> object:
        """Return the listed groups."""
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        groups = self.client.send_request(request, 5, ListGroupsResponse).groups
        return sorted(
            (each.group_id, each.group_state, each.group_type, each.protocol_type) for each in groups
        )

    def errors_of_other_protocols(self) -> tuple[object, ...]:
        """Return the errors of requests for groups of other types."""
        share = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id="s", member_epoch=0, subscribed_topic_names=("lines",)
        )
        shared = self.client.send_request(share, 1, ShareGroupHeartbeatResponse)
        described = self.client.send_request(
            DescribeGroupsRequest(groups=(self.group,)), 6, DescribeGroupsResponse
        ).groups[0]
        return (
            *errors_of_consumers(self.client, self.group, "lines"),
            ErrorCode(shared.error_code),
            shared.error_message,
            ErrorCode(described.error_code),
            described.error_message,
        )

    def record_kinds(self) -> set[str]:
        """Return the kinds of records in the log, each of which is encoded as in the log."""
        return record_kinds(self.broker.log_of("__consumer_offsets-0"), StreamsGroupRecord)


def without_counts(topology: Any) -> Any:
    """Return a described topology without the partition counts of its internal topics.

    Kafka shows them only after a later record of the partition.
    """
    if topology is None:
        return None
    return replace(
        topology,
        subtopologies=tuple(
            replace(
                each,
                state_changelog_topics=tuple(
                    replace(topic, partitions=0) for topic in each.state_changelog_topics
                ),
                repartition_source_topics=tuple(
                    replace(topic, partitions=0) for topic in each.repartition_source_topics
                ),
            )
            for each in topology.subtopologies
        ),
    )


def tasks_of(tasks: Iterable[Any] | None) -> set[Task]:
    return {(each.subtopology_id, index) for each in tasks or () for index in each.partitions}


def task_ids(tasks: Iterable[Task]) -> tuple[beat.RequestTaskIds, ...]:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology_id, index in sorted(tasks):
        by_subtopology.setdefault(subtopology_id, []).append(index)
    return tuple(
        beat.RequestTaskIds(subtopology_id=subtopology_id, partitions=tuple(indexes))
        for subtopology_id, indexes in by_subtopology.items()
    )


def result_of(response: beat.StreamsGroupHeartbeatResponse) -> tuple[object, ...]:
    """Return what is the same for every choice of the assignor."""
    return (
        ErrorCode(response.error_code),
        response.error_message,
        response.member_id,
        response.heartbeat_interval_ms,
        response.acceptable_recovery_lag,
        response.task_offset_interval_ms,
        response.status,
    )


@dataclass
class Member:
    """A member as its two clients know it: an epoch and tasks for each broker."""

    member_id: str
    process_id: str
    endpoint: beat.RequestEndpoint | None = None
    epochs: list[int] = field(default_factory=lambda: [0, 0])
    tasks: list[Tasks] = field(default_factory=lambda: [(set(), set()), (set(), set())])

    def joining(self, topology: beat.Topology = WORD_COUNT, **fields: Any) -> dict[str, Any]:
        """Return the fields of a request that joins."""
        return {
            "member_id": self.member_id,
            "rebalance_timeout_ms": 60_000,
            "topology": topology,
            "process_id": self.process_id,
            "user_endpoint": self.endpoint,
            "client_tags": (beat.KeyValue(key="zone", value="a"),),
            "active_tasks": (),
            "standby_tasks": (),
            "warmup_tasks": (),
            **fields,
        }

    def staying(self, index: int) -> dict[str, Any]:
        """Return the fields of a heartbeat for one broker."""
        active, standby = self.tasks[index]
        return {
            "member_id": self.member_id,
            "member_epoch": self.epochs[index],
            "active_tasks": task_ids(active),
            "standby_tasks": task_ids(standby),
            "warmup_tasks": (),
        }

    def apply(self, index: int, response: beat.StreamsGroupHeartbeatResponse) -> None:
        """Take the epoch and the tasks of a response."""
        self.epochs[index] = response.member_epoch
        if response.active_tasks is not None:
            self.tasks[index] = (tasks_of(response.active_tasks), tasks_of(response.standby_tasks))


def same(where: str, results: list[Any]) -> Any:
    assert results[0] == results[1], where
    return results[0]


class Comparison:
    """One group on both brokers; every request must get the same response."""

    def __init__(self, brokers: tuple[Broker, Broker], name: str) -> None:
        self.brokers = brokers
        self.members: list[Member] = []
        self.errors: Counter[ErrorCode] = Counter()
        self.standby_replicas = 0
        for broker in brokers:
            broker.group = name

    def send(self, where: str, **fields: Any) -> ErrorCode:
        """Send the same request to both; return its error."""
        responses = [broker.heartbeat(**fields) for broker in self.brokers]
        error: ErrorCode = same(where, [result_of(response) for response in responses])[0]
        self.errors[error] += 1
        return error

    def join(self, where: str, member: Member) -> None:
        """Join, and wait until the group is stable."""
        responses = [broker.heartbeat(**member.joining()) for broker in self.brokers]
        error: ErrorCode = same(where, [result_of(response) for response in responses])[0]
        self.errors[error] += 1
        if error is ErrorCode.NONE:
            self.members.append(member)
            for index, response in enumerate(responses):
                member.apply(index, response)
        self.settle(where)

    def leave(self, where: str, member: Member) -> None:
        """Leave, and wait until the group is stable."""
        self.members.remove(member)
        self.send(where, member_id=member.member_id, member_epoch=-1)
        self.settle(where)

    def set_standby_replicas(self, where: str, count: int) -> None:
        """Change the number of standby replicas, and wait until both have started an epoch with it."""
        before = [broker.described().group_epoch for broker in self.brokers]
        error = same(where, [broker.set_standby_replicas(count) for broker in self.brokers])
        if error is ErrorCode.NONE and count != self.standby_replicas:
            self.standby_replicas = count
            wait_until(lambda: all(epoch > old for epoch, old in zip(self._epochs(), before, strict=True)))
        self.settle(where)

    def _epochs(self) -> list[int]:
        """Send a heartbeat of one member; return the group epochs."""
        member = self.members[0]
        for index, broker in enumerate(self.brokers):
            member.apply(index, broker.heartbeat(**member.staying(index)))
        return [broker.described().group_epoch for broker in self.brokers]

    def settle(self, where: str) -> None:
        """Send heartbeats until the group is stable on both; then compare it."""
        for _ in range(ROUNDS_TO_STABLE):
            for member in self.members:
                responses = [
                    broker.heartbeat(**member.staying(index)) for index, broker in enumerate(self.brokers)
                ]
                error = same(where, [result_of(response) for response in responses])[0]
                assert error is ErrorCode.NONE, where
                for index, response in enumerate(responses):
                    member.apply(index, response)
            if all(broker.described().group_state in ("Stable", "Empty") for broker in self.brokers):
                break
        same(f"after {where}", [broker.summary() for broker in self.brokers])
        for member in self.members:
            assert member.epochs[0] == member.epochs[1], where
