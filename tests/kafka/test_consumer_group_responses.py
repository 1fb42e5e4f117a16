"""The same random requests of consumer groups to Tidelog and to Apache Kafka get the same responses.

Members of both protocols join, leave, lose responses, send old and wrong epochs, change their subscriptions
and commit. The assignor is `range`: its result does not depend on the order of members in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.kafka.separate_brokers import SeparateBroker, run_separate_brokers
from tests.support.waiting import wait_until
from tidelog.broker.coordinators.groups.consumer.embedded_protocol import read_assignment
from tidelog.protocol.codec import encode
from tidelog.protocol.consumer_protocol import ConsumerProtocolSubscription
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "4",
}
TOPICS = {"t": 5, "u": 3, "v": 1}
STEPS = 300
SEEDS = (1, 2, 4)
_RETRIED = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

Partitions = tuple[tuple[str, int], ...]


class Broker:
    """One broker, with the ids of its topics."""

    def __init__(self, broker: SeparateBroker) -> None:
        broker.clients.create_topic("__consumer_offsets", [[1]], cleanup_policy="compact")
        self.client = broker.client
        self.ids = broker.topic_ids()
        self.names = {topic_id: name for name, topic_id in self.ids.items()}
        self.group = "loaded"
        wait_until(lambda: self.description()[0] not in _RETRIED)

    def heartbeat(self, member: Member, epoch: int, sent: Sent) -> tuple[object, ...]:
        """Send a heartbeat; return what the response contains, with the names of topics."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member.member_id,
            member_epoch=epoch,
            instance_id=member.instance_id,
            rebalance_timeout_ms=60_000 if sent.everything else -1,
            subscribed_topic_names=member.topics if sent.everything or sent.topics else None,
            server_assignor="range" if sent.everything else None,
            topic_partitions=self._owned(sent.owned) if sent.everything or sent.partitions else None,
        )
        response = self.client.send_request(request, 1, ConsumerGroupHeartbeatResponse)
        assigned = None
        if response.assignment is not None:
            assigned = self._named(response.assignment.topic_partitions)
        return (
            ErrorCode(response.error_code),
            response.error_message,
            response.member_epoch,
            response.heartbeat_interval_ms,
            assigned,
        )

    def join(self, member: ClassicMember) -> tuple[object, ...]:
        """Send JoinGroup, and again with the member id of the response; return what the response contains."""
        subscription = b"\0\0" + encode(ConsumerProtocolSubscription(topics=member.topics), 0)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=member.ids.get(self, ""),
            group_instance_id=member.instance_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
        )
        response = self.client.send_request(request, 9, JoinGroupResponse)
        error = ErrorCode(response.error_code)
        if error is ErrorCode.NONE:
            member.ids[self] = response.member_id
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            member.ids.pop(self, None)
        return error, response.generation_id, response.protocol_name, response.leader, len(response.members)

    def sync(self, member: ClassicMember) -> tuple[object, ...]:
        """Send SyncGroup; return the error and the assignment."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=member.generation,
            member_id=member.ids.get(self, "x"),
            group_instance_id=member.instance_id,
            protocol_type="consumer",
            protocol_name="range",
        )
        response = self.client.send_request(request, 5, SyncGroupResponse)
        topics = read_assignment(response.assignment).assigned_partitions if response.assignment else ()
        return ErrorCode(response.error_code), sorted((t.topic, i) for t in topics for i in t.partitions)

    def classic_heartbeat(self, member: ClassicMember) -> ErrorCode:
        """Send Heartbeat; return the error."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=member.generation,
            member_id=member.ids.get(self, "x"),
            group_instance_id=member.instance_id,
        )
        return ErrorCode(self.client.send_request(request, 4, HeartbeatResponse).error_code)

    def leave(self, member: ClassicMember) -> ErrorCode:
        """Send LeaveGroup; return the error of the member."""
        identity = MemberIdentity(member_id=member.ids.get(self, ""), group_instance_id=member.instance_id)
        request = LeaveGroupRequest(group_id=self.group, members=(identity,))
        return ErrorCode(self.client.send_request(request, 5, LeaveGroupResponse).members[0].error_code)

    def commit(self, member: Member, epoch: int, partition: tuple[str, int]) -> ErrorCode:
        """Commit an offset; return its error."""
        partitions = (OffsetCommitRequestPartition(partition_index=partition[1], committed_offset=7),)
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            generation_id_or_member_epoch=epoch,
            topics=(OffsetCommitRequestTopic(topic_id=self.ids[partition[0]], partitions=partitions),),
        )
        response = self.client.send_request(request, 10, OffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def description(self) -> tuple[object, ...]:
        """Return the epochs of the group, and the epochs and partitions of its members."""
        request = ConsumerGroupDescribeRequest(group_ids=(self.group,))
        (group,) = self.client.send_request(request, 1, ConsumerGroupDescribeResponse).groups
        listed = self.client.send_request(ListGroupsRequest(), 5, ListGroupsResponse).groups
        return (
            ErrorCode(group.error_code),
            group.error_message,
            group.group_state,
            group.group_epoch,
            group.assignment_epoch,
            sorted(
                (
                    # The coordinator chooses the ids of classic members.
                    member.member_id if member.member_type else "",
                    member.instance_id or "",
                    member.member_epoch,
                    member.member_type,
                    sorted(member.subscribed_topic_names),
                    self._named(member.assignment.topic_partitions),
                    self._named(member.target_assignment.topic_partitions),
                )
                for member in group.members
            ),
            sorted((each.group_id, each.group_state, each.group_type, each.protocol_type) for each in listed),
        )

    def _owned(self, owned: Partitions) -> tuple[RequestTopicPartitions, ...]:
        topics: dict[str, list[int]] = {}
        for name, index in owned:
            topics.setdefault(name, []).append(index)
        return tuple(
            RequestTopicPartitions(topic_id=self.ids[name], partitions=tuple(indexes))
            for name, indexes in topics.items()
        )

    def _named(self, topics: Iterable[Any]) -> Partitions:
        return tuple(
            sorted((self.names[each.topic_id], index) for each in topics for index in each.partitions)
        )


class Sent(NamedTuple):
    """The fields that a heartbeat has, and the partitions that the member owns according to it."""

    everything: bool = False
    topics: bool = False
    partitions: bool = False
    owned: Partitions = ()


@dataclass
class Member:
    """A member as its client knows it: the epoch and the partitions of its last response."""

    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    owned: Partitions = ()
    topics: tuple[str, ...] = ("t",)


@dataclass(eq=False)
class ClassicMember:
    """A static member of the classic protocol, with its id at each broker."""

    instance_id: str
    topics: tuple[str, ...]
    generation: int = -1
    ids: dict[Broker, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    with run_separate_brokers(tmp_path_factory, SETTINGS, TOPICS) as (ours, kafkas):
        yield Broker(ours), Broker(kafkas)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_get_the_same_responses(brokers: tuple[Broker, Broker], seed: int) -> None:
    ours, kafkas = brokers
    ours.group = kafkas.group = f"g{seed}"
    random = Random(seed)
    members: list[Member] = []
    received_errors: Counter[ErrorCode] = Counter()
    for step in range(STEPS):
        if not members or (len(members) < 6 and random.random() < 0.08):
            instance = random.choice((None, None, "i", "j"))
            members.append(Member(f"m{step}", instance, topics=random.choice(SUBSCRIPTIONS)))
        member = random.choice(members)
        kind = random.choices(list(KINDS), weights=list(KINDS.values()))[0]
        where = f"step {step}: {kind} of {member}"
        if kind == "commit":
            partition = random.choice([("t", 0), ("t", 3), ("u", 1)])
            epoch = max(member.epoch + random.choice((0, 0, -1, 1)), -1)
            errors = [broker.commit(member, epoch, partition) for broker in brokers]
            assert errors[0] is errors[1], f"{where} with epoch {epoch}: {errors}"
            received_errors[errors[0]] += 1
            continue
        epoch, sent = heartbeat_of(kind, member, random)
        responses = [broker.heartbeat(member, epoch, sent) for broker in brokers]
        assert responses[0] == responses[1], f"{where}, {epoch}, {sent}"
        error, _, new_epoch, _, assigned = responses[0]
        received_errors[ErrorCode(error)] += 1  # type: ignore[arg-type]
        if kind != "lost response":
            apply(member, kind, ErrorCode(error), int(str(new_epoch)), assigned)  # type: ignore[arg-type]
        if kind in ("leave", "leave for a while"):
            members.remove(member)
        if step % 5 == 0:
            assert ours.description() == kafkas.description(), where
    assert received_errors.keys() >= EXPECTED_ERRORS, received_errors


def test_classic_members_of_a_consumer_group_get_the_same_responses(brokers: tuple[Broker, Broker]) -> None:
    ours, kafkas = brokers
    ours.group = kafkas.group = "mixed"
    random = Random(848)
    # This member never leaves, so that the group stays a consumer group and no join has to wait.
    members = [Member("anchor", topics=("t", "u"))]
    classic: list[ClassicMember] = []
    received_errors: Counter[tuple[str, ErrorCode]] = Counter()

    def require_equal(what: str, responses: list[Any]) -> Any:
        assert responses[0] == responses[1], f"{what}: {responses}"
        received_errors[what, responses[0] if isinstance(responses[0], ErrorCode) else responses[0][0]] += 1
        return responses[0]

    for step in range(STEPS):
        if random.random() < 0.5:
            member = random.choice(members)
            kind = random.choice(("beat", "owned", "changed"))
            epoch, sent = heartbeat_of(kind, member, random)
            error, _, new_epoch, _, assigned = require_equal(
                kind, [b.heartbeat(member, epoch, sent) for b in brokers]
            )
            apply(member, kind, error, new_epoch, assigned)
        elif len(classic) < 2 and random.random() < 0.2:
            classic.append(ClassicMember(random.choice("ijk"), random.choice(SUBSCRIPTIONS)))
        elif classic:
            each = random.choice(classic)
            act(each, random, brokers, require_equal)
            if each.generation == LEFT:
                classic.remove(each)
        if step % 3 == 0:
            assert ours.description() == kafkas.description(), f"step {step}"
    errors = {key[1] for key in received_errors}
    assert errors >= {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}, (
        received_errors
    )


LEFT = -2


def act(
    member: ClassicMember,
    random: Random,
    brokers: tuple[Broker, Broker],
    require_equal: Callable[[str, list[Any]], Any],
) -> None:
    """Send the next request of a classic member, or at times another one, to both brokers."""
    if random.random() < 0.05:
        require_equal("leave", [broker.leave(member) for broker in brokers])
        member.generation = LEFT
        return
    if member.generation < 0 or random.random() < 0.1:
        if random.random() < 0.3:
            member.topics = random.choice(SUBSCRIPTIONS)
        error, generation, *_ = require_equal("join", [broker.join(member) for broker in brokers])
        member.generation = generation if error is ErrorCode.NONE else -1
        return
    if random.random() < 0.1:
        member.generation += random.choice((-1, 1))
    if random.random() < 0.5:
        (error, _) = require_equal("sync", [broker.sync(member) for broker in brokers])
    else:
        error = require_equal("heartbeat", [broker.classic_heartbeat(member) for broker in brokers])
    if error is not ErrorCode.NONE:
        member.generation = -1
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            member.ids.clear()


SUBSCRIPTIONS: list[tuple[str, ...]] = [("t",), ("t", "u"), ("u",), ("v", "missing"), ("t", "u", "v")]
KINDS = {
    "beat": 8,
    "owned": 10,
    "changed": 3,
    "join": 2,
    "lost response": 2,
    "wrong epoch": 3,
    "leave": 1,
    "leave for a while": 1,
    "commit": 6,
}
"""The requests with their relative frequencies."""

EXPECTED_ERRORS = {
    ErrorCode.NONE,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.STALE_MEMBER_EPOCH,
}


def heartbeat_of(kind: str, member: Member, random: Random) -> tuple[int, Sent]:
    """Return the epoch and the fields of a heartbeat; a member without an epoch joins."""
    if kind in ("leave", "leave for a while"):
        return (-2 if kind == "leave for a while" and member.instance_id else -1), Sent()
    if kind == "wrong epoch":
        return max(1, member.epoch + random.choice((-2, -1, 1, 3))), Sent(partitions=True, owned=member.owned)
    if kind == "join" or member.epoch == 0:
        return 0, Sent(everything=True)
    if kind == "changed":
        member.topics = random.choice(SUBSCRIPTIONS)
        return member.epoch, Sent(topics=True, partitions=True, owned=member.owned)
    return member.epoch, Sent(partitions=kind != "beat", owned=member.owned)


def apply(member: Member, kind: str, error: ErrorCode, epoch: int, assigned: Partitions | None) -> None:
    """Update what the client of a member knows from a response."""
    if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
        member.epoch, member.owned = 0, ()
    elif error is ErrorCode.NONE and epoch >= 0:
        member.epoch = epoch
        if assigned is not None:
            member.owned = assigned
