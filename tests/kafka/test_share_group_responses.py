"""The same random requests of share groups to Tidelog and to Apache Kafka get the same responses.

Members join, leave, send old and wrong epochs and change their subscriptions; administrators change and
delete offsets and groups. Which of several members gets a partition may differ: Kafka's choice depends on the
order of its hash tables. The partitions of all members together must be the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tests.kafka.group_requests import delete_group, errors_of_consumers
from tests.kafka.separate_brokers import SeparateBroker, run_separate_brokers
from tests.kafka.stored_records import record_kinds
from tests.support.waiting import wait_until
from tidelog.broker.coordinators.groups.records.share_group_records import ShareGroupRecord
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import alter_share_group_offsets as alter
from tidelog.protocol.messages import delete_share_group_offsets as delete
from tidelog.protocol.messages import describe_share_group_offsets as describe
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tidelog.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from tidelog.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.share.assignment.interval.ms": "0",
    "group.share.max.size": "4",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
TOPICS = {"t": 5, "u": 3, "v": 1}
SUBSCRIPTIONS: list[tuple[str, ...]] = [("t",), ("t", "u"), ("u",), ("v", "missing"), ("t", "u", "v")]
STEPS = 250
SEEDS = (1, 2)
_RETRIED = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class Broker:
    """One broker, with the names of its topics."""

    def __init__(self, broker: SeparateBroker) -> None:
        broker.clients.create_topic("__consumer_offsets", [[1]], cleanup_policy="compact")
        self.broker = broker
        self.client = broker.client
        self.names = {topic_id: name for name, topic_id in broker.topic_ids().items()}
        self.group = "probe"
        key = f"g:{'A' * 21}Q:0"
        wait_until(lambda: self._share_coordinator_error(key) is ErrorCode.NONE)
        wait_until(lambda: self.description()[0] not in _RETRIED)

    def _share_coordinator_error(self, key: str) -> ErrorCode:
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))
        return ErrorCode(
            self.client.send_request(request, 6, FindCoordinatorResponse).coordinators[0].error_code
        )

    def heartbeat(
        self, member_id: str, epoch: int, topics: tuple[str, ...] | None, rack: str | None = None
    ) -> tuple[object, ...]:
        """Send a heartbeat; return what the response contains, and whether a full one has an assignment."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member_id,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=topics,
        )
        response = self.client.send_request(request, 1, ShareGroupHeartbeatResponse)
        return (
            ErrorCode(response.error_code),
            response.error_message,
            response.member_id,
            response.member_epoch,
            response.heartbeat_interval_ms,
            response.assignment is not None if topics is not None else None,
        )

    def description(self) -> tuple[object, ...]:
        """Return the epochs and the members of the group."""
        request = ShareGroupDescribeRequest(group_ids=(self.group,))
        (group,) = self.client.send_request(request, 1, ShareGroupDescribeResponse).groups
        return (
            ErrorCode(group.error_code),
            group.error_message,
            group.group_state,
            group.group_epoch,
            group.assignment_epoch,
            group.assignor_name,
            sorted(
                (
                    member.member_id,
                    member.rack_id,
                    member.member_epoch,
                    tuple(sorted(member.subscribed_topic_names)),
                )
                for member in group.members
            ),
        )

    def assigned_partitions(self) -> list[tuple[str, int]]:
        """Return the partitions that members have, each as often as it is shared."""
        request = ShareGroupDescribeRequest(group_ids=(self.group,))
        (group,) = self.client.send_request(request, 1, ShareGroupDescribeResponse).groups
        return sorted(
            partition
            for member in group.members
            for partition in self._named(member.assignment.topic_partitions)
        )

    def listed(self) -> tuple[object, ...]:
        """Return the listed groups."""
        groups = self.client.send_request(ListGroupsRequest(), 5, ListGroupsResponse).groups
        return tuple(
            sorted((each.group_id, each.group_state, each.group_type, each.protocol_type) for each in groups)
        )

    def offsets(self, topics: tuple[str, ...] | None) -> tuple[ErrorCode, list[Any]]:
        """Return the described offsets of topics, or of all."""
        requested = None
        if topics is not None:
            requested = tuple(
                describe.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(0, 2))
                for name in topics
            )
        request = describe.DescribeShareGroupOffsetsRequest(
            groups=(describe.DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=requested),)
        )
        (group,) = self.client.send_request(request, 1, describe.DescribeShareGroupOffsetsResponse).groups
        return ErrorCode(group.error_code), sorted(
            (
                topic.topic_name,
                self.names.get(topic.topic_id),
                sorted(
                    (each.partition_index, each.start_offset, each.leader_epoch, each.lag, each.error_code)
                    for each in topic.partitions
                ),
            )
            for topic in group.topics
        )

    def alter(self, topics: tuple[str, ...], offset: int) -> object:
        """Set the offsets of partitions 0 and 2; return the errors."""
        request = alter.AlterShareGroupOffsetsRequest(
            group_id=self.group,
            topics=tuple(
                alter.AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=tuple(
                        alter.AlterShareGroupOffsetsRequestPartition(
                            partition_index=index, start_offset=offset
                        )
                        for index in (0, 2)
                    ),
                )
                for name in topics
            ),
        )
        response = self.client.send_request(request, 0, alter.AlterShareGroupOffsetsResponse)
        return ErrorCode(response.error_code), sorted(
            (
                topic.topic_name,
                self.names.get(topic.topic_id),
                sorted((each.partition_index, each.error_code) for each in topic.partitions),
            )
            for topic in response.responses
        )

    def delete_offsets(self, topics: tuple[str, ...]) -> object:
        """Delete the offsets of topics; return the errors."""
        request = delete.DeleteShareGroupOffsetsRequest(
            group_id=self.group,
            topics=tuple(delete.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics),
        )
        response = self.client.send_request(request, 0, delete.DeleteShareGroupOffsetsResponse)
        return ErrorCode(response.error_code), sorted(
            (topic.topic_name, self.names.get(topic.topic_id), topic.error_code)
            for topic in response.responses
        )

    def delete_group(self) -> ErrorCode:
        """Delete the group; return the error."""
        return delete_group(self.client, self.group)

    def errors_of_other_protocols(self) -> tuple[object, ...]:
        """Return the errors of requests for groups of other types."""
        commit = OffsetCommitRequest(group_id=self.group, generation_id_or_member_epoch=-1, topics=())
        return (
            *errors_of_consumers(self.client, self.group, "t"),
            self.client.send_request(commit, 10, OffsetCommitResponse).topics,
        )

    def record_kinds(self) -> set[str]:
        """Return the kinds of records in the log, each of which is encoded as in the log."""
        return record_kinds(self.broker.log_of("__consumer_offsets-0"), ShareGroupRecord)

    def _named(self, topics: Iterable[Any]) -> list[tuple[str, int]]:
        return [(self.names[each.topic_id], index) for each in topics for index in each.partitions]


@dataclass
class Member:
    """A member as its client knows it."""

    member_id: str
    epoch: int = 0
    topics: tuple[str, ...] = ("t",)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    with run_separate_brokers(tmp_path_factory, SETTINGS, TOPICS) as (ours, kafkas):
        yield Broker(ours), Broker(kafkas)


def require_equal(where: str, results: list[Any]) -> Any:
    assert results[0] == results[1], where
    return results[0]


def wait_until_initialized(brokers: tuple[Broker, Broker], topics: set[str]) -> None:
    """Wait until both have initialized all partitions of the topics."""
    expected = sum(TOPICS.get(topic, 0) for topic in topics)

    def count(broker: Broker) -> int:
        _, described = broker.offsets(None)
        return sum(len(partitions) for name, _, partitions in described if name in topics)

    wait_until(lambda: all(count(broker) == expected for broker in brokers))


KINDS = {
    "beat": 10,
    "full": 3,
    "changed": 3,
    "join": 2,
    "wrong epoch": 3,
    "previous epoch": 2,
    "leave": 2,
    "unknown member": 1,
    "invalid": 1,
    "alter": 2,
    "delete offsets": 1,
    "delete group": 1,
}
"""The requests with their relative frequencies."""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_get_the_same_responses(brokers: tuple[Broker, Broker], seed: int) -> None:
    for broker in brokers:
        broker.group = f"g{seed}"
    random = Random(seed)
    members: list[Member] = []
    errors: Counter[ErrorCode] = Counter()
    for step in range(STEPS):
        if not members or (len(members) < 6 and random.random() < 0.1):
            members.append(Member(f"m{step}", topics=random.choice(SUBSCRIPTIONS)))
        member = random.choice(members)
        kind = random.choices(list(KINDS), weights=list(KINDS.values()))[0]
        where = f"step {step}: {kind} of {member}"
        errors[one_request(brokers, random, kind, member, members, where)] += 1
        subscribed = {topic for each in members if each.epoch > 0 for topic in each.topics}
        wait_until_initialized(brokers, subscribed)
        require_equal(f"after {where}", [broker.description() for broker in brokers])
        require_equal(f"after {where}", [broker.offsets(None) for broker in brokers])
    assert errors.keys() >= {
        ErrorCode.NONE,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NON_EMPTY_GROUP,
    }, errors
    joined = [each for each in members if each.epoch > 0]
    for _ in range(3):
        for member in joined:
            results = [broker.heartbeat(member.member_id, member.epoch, None) for broker in brokers]
            member.epoch = require_equal("settle", results)[3]
    assert len({member.epoch for member in joined}) <= 1
    require_equal("assigned", [broker.assigned_partitions() for broker in brokers])
    require_equal("listed", [broker.listed() for broker in brokers])
    require_equal("other protocols", [broker.errors_of_other_protocols() for broker in brokers])
    for member in [each for each in members if each.epoch > 0]:
        require_equal("leave", [broker.heartbeat(member.member_id, -1, None) for broker in brokers])
    for topics in (("t",), ("missing", "v"), ("t",)):
        require_equal(f"alter {topics}", [broker.alter(topics, 3) for broker in brokers])
        require_equal(f"offsets {topics}", [broker.offsets((*topics, "missing")) for broker in brokers])
        require_equal(
            f"delete offsets {topics}", [broker.delete_offsets((*topics, "u")) for broker in brokers]
        )
        require_equal("offsets", [broker.offsets(None) for broker in brokers])
    assert require_equal("delete group", [broker.delete_group() for broker in brokers]) is ErrorCode.NONE
    require_equal("deleted", [broker.description() for broker in brokers])


def one_request(
    brokers: tuple[Broker, Broker],
    random: Random,
    kind: str,
    member: Member,
    members: list[Member],
    where: str,
) -> ErrorCode:
    """Send one request to both; return its error."""
    topics = random.choice((("t",), ("u", "v"), ("missing",)))
    if kind == "alter":
        return ErrorCode(require_equal(where, [broker.alter(topics, 2) for broker in brokers])[0])
    if kind == "delete offsets":
        return ErrorCode(require_equal(where, [broker.delete_offsets(topics) for broker in brokers])[0])
    if kind == "delete group":
        return ErrorCode(require_equal(where, [broker.delete_group() for broker in brokers]))
    if kind == "unknown member":
        return ErrorCode(require_equal(where, [broker.heartbeat("x", 3, None) for broker in brokers])[0])
    if kind == "invalid":
        invalid_epoch, invalid_names, rack = random.choice(
            ((-3, None, None), (0, None, None), (0, (), None), (1, None, " "))
        )
        results = [
            broker.heartbeat(member.member_id, invalid_epoch, invalid_names, rack) for broker in brokers
        ]
        return ErrorCode(require_equal(where, results)[0])
    epoch = member.epoch
    names: tuple[str, ...] | None = None
    if kind == "leave":
        epoch = -1
    elif kind == "join" or member.epoch == 0:
        epoch, names = 0, member.topics
    elif kind == "wrong epoch":
        epoch = max(1, member.epoch + random.choice((-3, 1, 3)))
    elif kind == "previous epoch":
        epoch = max(1, member.epoch - 1)
    elif kind == "changed":
        names = member.topics = random.choice(SUBSCRIPTIONS)
    elif kind == "full":
        names = member.topics
    error, _, _, new_epoch, _, _ = require_equal(
        where, [broker.heartbeat(member.member_id, epoch, names) for broker in brokers]
    )
    if error is ErrorCode.NONE and epoch >= 0:
        member.epoch = new_epoch
    if kind == "leave" or error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        if kind == "leave":
            members.remove(member)
            member.epoch = 0
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            member.epoch = 0
    return ErrorCode(error)


def test_the_records_of_kafka_are_read_and_written_byte_for_byte(brokers: tuple[Broker, Broker]) -> None:
    ours, kafkas = (broker.record_kinds() for broker in brokers)
    assert ours == kafkas
    assert len(ours) == 12
