"""Consumer groups: members of one and of several client libraries, joins, departures and restarts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from uuid import uuid4

import pytest

from tests.support.foreign_clients import (
    CLIENTS,
    ForeignClient,
    ForeignConsumer,
    ForeignError,
    Message,
    Received,
)
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import poll_all_until
from tests.support.waiting import wait_until
from tidelog.protocol.errors import ErrorCode
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

PARTITIONS = 6
REBALANCE_LOGGER = "tidelog.broker.coordinators.groups.rebalance"
# The clients that implement each assignor.
ASSIGNORS = {
    "range": ["confluent", "aiokafka", "kafka_python", "tidelog"],
    "roundrobin": ["confluent", "aiokafka", "kafka_python", "tidelog"],
    "sticky": ["aiokafka", "kafka_python", "tidelog"],
    "cooperative-sticky": ["confluent", "kafka_python", "tidelog"],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a broker that allows short sessions, so that a lost member is detected early."""
    with EmbeddedCluster(config={"group.min.session.timeout.ms": "100"}) as running:
        yield running


@pytest.fixture
def group() -> str:
    """Return an unused group."""
    return f"group-{uuid4().hex[:8]}"


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """Create a topic with several partitions."""
    return new_topic(PARTITIONS)


def parts(consumer: ForeignConsumer) -> set[int]:
    return {partition for _, partition in consumer.assignment()}


def are_evenly_distributed(consumers: Sequence[ForeignConsumer], partitions: int = PARTITIONS) -> bool:
    """Return whether every partition has one owner and every member has its fair share."""
    shares = [parts(consumer) for consumer in consumers]
    fair = partitions // len(consumers)
    return (
        sum(map(len, shares)) == partitions
        and set().union(*shares) == set(range(partitions))
        and all(fair <= len(share) <= fair + 1 for share in shares)
    )


def wait_for_shares(consumers: Sequence[ForeignConsumer], partitions: int = PARTITIONS) -> list[Received]:
    """Poll until the partitions are assigned."""
    return poll_all_until(
        consumers,
        lambda _: are_evenly_distributed(consumers, partitions),
        f"assignment to {len(consumers)} members",
    )


class Feed:
    """Numbered messages in all partitions, and the check that all of them have been read."""

    def __init__(self, client_factory: ClientFactory, topic: str) -> None:
        self._producer = client_factory.producer(CLIENTS["confluent"])
        self._topic = topic
        self._sent: set[bytes] = set()
        self.read: list[Received] = []

    def send(self, count: int = 60) -> None:
        """Send more messages and wait until they are acknowledged."""
        first = len(self._sent)
        numbers = range(first, first + count)
        self._producer.send(
            self._topic, [Message(b"%d" % number, partition=number % PARTITIONS) for number in numbers]
        )
        self._producer.flush()
        self._sent |= {b"%d" % number for number in numbers}

    def read_all(self, consumers: Sequence[ForeignConsumer]) -> None:
        """Poll until each message was received at least once."""

        def have_all_come(received: list[Received]) -> bool:
            return self._sent <= {one.value for one in self.read + received}

        self.read += poll_all_until(consumers, have_all_come, "every message")


@pytest.mark.parametrize(
    ("assignor", "name"), [(assignor, name) for assignor, names in ASSIGNORS.items() for name in names]
)
def test_members_of_one_client_library_join_share_and_leave(
    assignor: str, name: str, group: str, topic: str, client_factory: ClientFactory
) -> None:
    feed = Feed(client_factory, topic)
    members = []
    for number in range(3):
        member = client_factory.consumer(
            CLIENTS[name], group=group, assignor=assignor, client_id=f"m{number}"
        )
        member.subscribe(topic)
        members.append(member)
        feed.read += wait_for_shares(members)
        feed.send()
        feed.read_all(members)
    client_factory.close_early(members.pop(0))
    feed.read += wait_for_shares(members)
    feed.send()
    feed.read_all(members)


MIXED = [
    pytest.param(assignor, first, id=f"{assignor}-{first}-leads")
    for assignor, names in ASSIGNORS.items()
    for first in names
]


@pytest.mark.parametrize(("assignor", "first"), MIXED)
def test_members_of_all_client_libraries_share_partitions_with_any_leader(
    assignor: str, first: str, group: str, topic: str, client_factory: ClientFactory
) -> None:
    names = [first, *(name for name in ASSIGNORS[assignor] if name != first)]
    feed = Feed(client_factory, topic)
    members = []
    for name in names:
        member = client_factory.consumer(CLIENTS[name], group=group, assignor=assignor, client_id=name)
        member.subscribe(topic)
        members.append(member)
        feed.read += wait_for_shares(members)
    feed.send()
    feed.read_all(members)
    view = client_factory.admin(CLIENTS["confluent"]).describe_group(group)
    assert (view.state, view.clients) == ("stable", tuple(sorted(names)))
    # The leader of the group leaves; another member assigns now.
    client_factory.close_early(members.pop(0))
    feed.read += wait_for_shares(members)
    feed.send()
    feed.read_all(members)


@pytest.mark.parametrize(
    ("writer", "reader"), list(permutations(["confluent", "aiokafka", "kafka_python", "tidelog"], 2))
)
def test_one_client_continues_where_another_committed(
    writer: str, reader: str, group: str, topic: str, client_factory: ClientFactory
) -> None:
    Feed(client_factory, topic).send(60)
    first = client_factory.consumer(CLIENTS[writer], group=group)
    first.subscribe(topic)
    wait_for_shares([first])
    first.commit(topic, {0: 4, 1: 10})
    assert (first.committed_offset(topic, 0), first.committed_offset(topic, 2)) == (4, None)
    client_factory.close_early(first)
    second = client_factory.consumer(CLIENTS[reader], group=group)
    second.subscribe(topic)
    assert second.committed_offset(topic, 0) == 4
    received = poll_all_until([second], lambda so_far: len(so_far) >= 46, "46 messages")
    assert sorted(one.offset for one in received if one.partition == 0) == list(range(4, 10))
    assert [one for one in received if one.partition == 1] == []


def test_positions_are_committed_automatically(
    client: ForeignClient, group: str, topic: str, client_factory: ClientFactory
) -> None:
    feed = Feed(client_factory, topic)
    feed.send(60)
    member = client_factory.consumer(client, group=group, auto_commit=True)
    member.subscribe(topic)
    feed.read_all([member])
    admin = client_factory.admin(CLIENTS["confluent"])
    expected = {(topic, partition): 10 for partition in range(PARTITIONS)}
    poll_all_until([member], lambda _: admin.group_offsets(group) == expected, "commit of every position")


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crash"])
def test_committed_offsets_and_members_survive_a_restart(
    client: ForeignClient,
    clean: bool,
    group: str,
    topic: str,
    client_factory: ClientFactory,
    cluster: EmbeddedCluster,
) -> None:
    feed = Feed(client_factory, topic)
    feed.send(60)
    member = client_factory.consumer(client, group=group)
    member.subscribe(topic)
    feed.read_all([member])
    member.commit(topic, dict.fromkeys(range(PARTITIONS), 7))
    cluster.restart(clean=clean)
    admin = client_factory.admin(CLIENTS["confluent"])
    assert set(admin.group_offsets(group).values()) == {7}
    # The member is not notified: its session continues with the restarted coordinator.
    feed.send(60)
    feed.read_all([member])
    other = client_factory.consumer(client, group=group, client_id="other")
    other.subscribe(topic)
    wait_for_shares([member, other])


def test_added_partitions_are_assigned_to_running_members(
    client: ForeignClient, group: str, topic: str, client_factory: ClientFactory
) -> None:
    members = [
        client_factory.consumer(client, group=group, metadata_age_ms_max=300, client_id=f"m{number}")
        for number in range(2)
    ]
    for member in members:
        member.subscribe(topic)
    wait_for_shares(members)
    client_factory.admin(client).add_partitions(topic, PARTITIONS + 4)
    wait_for_shares(members, PARTITIONS + 4)
    client_factory.produce(client, topic, [Message(b"in a new partition", partition=PARTITIONS + 3)])
    received = poll_all_until(members, bool, "message of a new partition")
    assert [(one.partition, one.value) for one in received] == [(PARTITIONS + 3, b"in a new partition")]


def test_a_member_that_exceeds_max_poll_interval_loses_its_partitions(
    client: ForeignClient, group: str, topic: str, client_factory: ClientFactory
) -> None:
    idle = client_factory.consumer(client, group=group, session_timeout_ms=600, poll_interval_ms_max=800)
    idle.subscribe(topic)
    wait_for_shares([idle])
    busy = client_factory.consumer(CLIENTS["confluent"], group=group)
    busy.subscribe(topic)
    wait_for_shares([idle, busy])
    poll_all_until([busy], lambda _: parts(busy) == set(range(PARTITIONS)), "partitions of the idle member")


@pytest.mark.parametrize("name", ["confluent", "aiokafka", "kafka_python", "tidelog"])
def test_a_static_member_restarts_without_a_rebalance(
    name: str, group: str, topic: str, client_factory: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    client = CLIENTS[name]
    caplog.set_level(logging.INFO, REBALANCE_LOGGER)

    def member(number: int) -> ForeignConsumer:
        consumer = client_factory.consumer(
            client, group=group, instance_id=f"instance-{number}", client_id=f"m{number}"
        )
        consumer.subscribe(topic)
        return consumer

    members = [member(0), member(1)]
    wait_for_shares(members)
    owned = parts(members[0])
    caplog.clear()
    client_factory.close_early(members[0])
    members[0] = member(0)
    poll_all_until(members, lambda _: parts(members[0]) == owned, "return of the static member")
    assert are_evenly_distributed(members)
    # The logs of the client that is closed name the group, too.
    lines = [record.getMessage() for record in caplog.records if record.name == REBALANCE_LOGGER]
    assert [line for line in lines if group in line] == []


@pytest.mark.parametrize("name", ["confluent", "kafka_python", "tidelog"])
def test_the_older_of_two_members_with_an_instance_id_is_fenced(
    name: str, group: str, topic: str, client_factory: ClientFactory
) -> None:
    # aiokafka does not send its instance id in heartbeats and commits: it gets no error, and joins again.
    client = CLIENTS[name]
    older = client_factory.consumer(client, group=group, instance_id="same", client_id="older")
    older.subscribe(topic)
    wait_for_shares([older])
    newer = client_factory.consumer(client, group=group, instance_id="same", client_id="newer")
    newer.subscribe(topic)
    wait_for_shares([newer])
    failures: list[ForeignError] = []

    def is_fenced() -> bool:
        newer.poll(0.01)
        try:
            older.poll(0.01)
            older.commit(topic, {0: 1})
        except ForeignError as failure:
            failures.append(failure)
        return bool(failures)

    wait_until(is_fenced, "fencing of the older member")
    # librdkafka reports the error in the commit or, if a heartbeat was first, in the next poll, as fatal.
    assert failures[0].code == ErrorCode.FENCED_INSTANCE_ID or "Static consumer fenced" in str(failures[0])


def test_a_group_reads_several_topics(
    client: ForeignClient, group: str, new_topic: Callable[..., str], client_factory: ClientFactory
) -> None:
    topics = sorted(new_topic(2) for _ in range(3))
    for topic in topics:
        client_factory.produce(client, topic, [Message(b"to " + topic.encode(), partition=1)])
    members = [client_factory.consumer(client, group=group, client_id=f"m{number}") for number in range(2)]
    for member in members:
        member.subscribe(*topics)
    received = poll_all_until(
        members,
        lambda so_far: (
            len({one.topic for one in so_far}) == 3
            and sum(len(member.assignment()) for member in members) == 6
            and all(member.assignment() for member in members)
        ),
        "message of each topic to two members",
    )
    assert {(one.topic, one.value) for one in received} == {
        (topic, b"to " + topic.encode()) for topic in topics
    }
