"""Transactions of our producer on three Tidelog nodes, with third-party clients and our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest

from tests.support.cli import tidelog_failure, tidelog_output
from tests.support.foreign_clients import ForeignClient
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.clients.admin.admin import Admin, TransactionDescription, UpgradeType
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata
from tidelog.clients.producer.producer import Producer
from tidelog.clients.transactions.transaction_errors import AbortableTransactionError, FatalTransactionError
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

COMMITTED = {"isolation": "read_committed"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run three nodes for this module."""
    with EmbeddedCluster(nodes=3) as running:
        wait_until(lambda: ThreeNodes(running).brokers() == {1, 2, 3})
        yield running


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    """Create a topic of three partitions on three nodes."""
    name = f"tides-{uuid4().hex[:8]}"
    ThreeNodes(cluster).create_topic(name)
    return name


@pytest.fixture
def transactional_id() -> str:
    return f"gauge-{uuid4().hex[:8]}"


async def write_three_transactions(servers: str, transactional_id: str, topic: str) -> None:
    """Write two committed transactions, and an aborted one between them, to every partition."""
    async with Producer(servers, transactional_id=transactional_id) as producer:
        await producer.init_transactions()
        for name in (b"first", b"aborted", b"last"):
            producer.begin_transaction()
            for partition in range(3):
                await producer.send(topic, name, partition=partition)
            await producer.flush()
            if name == b"aborted":
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()


async def test_every_client_sees_commits_and_aborts(
    client: ForeignClient, servers: str, topic: str, transactional_id: str, client_factory: ClientFactory
) -> None:
    await write_three_transactions(servers, transactional_id, topic)
    for partition in range(3):
        start = {partition: 0}
        committed = client_factory.consume(client, topic, 2, start, **COMMITTED)
        assert [(one.offset, one.value) for one in committed] == [(0, b"first"), (4, b"last")]
        everything = client_factory.consume(client, topic, 3, start)
        assert [one.value for one in everything] == [b"first", b"aborted", b"last"]


@pytest.fixture
def version_1(cluster: EmbeddedCluster, servers: str) -> Iterator[None]:
    """Use transaction.version 1 during the test: an epoch may have several transactions (KIP-890)."""

    def change(level: int, upgrade_type: UpgradeType) -> None:
        async def work() -> None:
            async with Admin(servers) as admin:
                await admin.update_features({"transaction.version": level}, upgrade_type=upgrade_type)

        asyncio.run(work())
        for node_id in (1, 2, 3):
            wait_until(lambda node_id=node_id: cluster.run(level_of, node_id) == level)  # type: ignore[misc]

    def level_of(node: BrokerNode) -> int:
        return node.services.image().features.get("transaction.version", 0)

    change(1, UpgradeType.SAFE_DOWNGRADE)
    yield
    change(2, UpgradeType.UPGRADE)


@pytest.mark.usefixtures("version_1")
async def test_transactions_of_version_1(servers: str, topic: str, transactional_id: str) -> None:
    await write_three_transactions(servers, transactional_id, topic)
    async with Admin(servers) as admin:
        described = (await admin.describe_transactions([transactional_id]))[transactional_id]
    assert isinstance(described, TransactionDescription)
    assert described.producer_epoch == 0, "the epoch does not increase with each transaction"
    async with Consumer(servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        records = [await consumer.getone(10_000), await consumer.getone(10_000)]
    assert [None if one is None else one.value for one in records] == [b"first", b"last"]


async def test_producers_of_librdkafka_and_tidelog_fence_each_other(
    servers: str, topic: str, transactional_id: str
) -> None:
    async with Producer(servers, transactional_id=transactional_id) as ours:
        await ours.init_transactions()
        ours.begin_transaction()
        await ours.send_and_wait(topic, b"of a zombie")
        theirs = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "transactional.id": transactional_id, "log_level": 0}
        )
        theirs.init_transactions(30)
        with pytest.raises(FatalTransactionError) as caught:
            await ours.commit_transaction()
        assert caught.value.code is ErrorCode.PRODUCER_FENCED
        theirs.begin_transaction()
        theirs.produce(topic, b"of another zombie")
        theirs.flush(30)
        async with Producer(servers, transactional_id=transactional_id) as again:
            await again.init_transactions()
            with pytest.raises(confluent_kafka.KafkaException) as fenced:
                theirs.commit_transaction(30)
            assert fenced.value.args[0].fatal()


async def test_the_last_stable_offset_moves_with_the_transaction(
    servers: str, topic: str, transactional_id: str
) -> None:
    # KAFKA-17582: the position is after the marker of an aborted transaction, too.
    p0 = TopicPartition(topic, 0)
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with (
        Producer(servers, transactional_id=transactional_id) as producer,
        Consumer(servers, **options) as committed,
        Consumer(servers, auto_offset_reset="earliest") as uncommitted,
    ):
        committed.assign([p0])
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"high", partition=0)
        assert await committed.poll(100) == {}
        assert await committed.end_offsets([p0]) == {p0: 0}
        assert await uncommitted.end_offsets([p0]) == {p0: 1}
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"low", partition=0)
        [record] = (await committed.poll(10_000))[p0]
        assert (record.offset, record.value) == (2, b"low")
        assert await committed.end_offsets([p0]) == {p0: 4}
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"gone", partition=0)
        await producer.abort_transaction()
        while await committed.position(p0) < 6:
            assert await committed.poll(1_000) == {}


async def test_offsets_are_committed_with_the_transaction_and_only_as_a_member(
    servers: str, topic: str, transactional_id: str
) -> None:
    group = f"harbour-{topic}"
    p0 = TopicPartition(topic, 0)
    async with (
        Producer(servers, transactional_id=transactional_id) as producer,
        Consumer(servers, group_id=group, enable_auto_commit=False) as consumer,
        Consumer(servers, group_id=group) as other,
    ):
        consumer.subscribe([topic])
        with pytest.raises(KafkaError) as unknown:
            consumer.group_metadata()
        assert unknown.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        while not consumer.assignment():
            await consumer.poll(100)
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_offsets_to_transaction({p0: 5}, consumer.group_metadata())
        assert (await other.committed([p0]))[p0].offset == 5
        with pytest.raises(AbortableTransactionError) as caught:
            async with producer.transaction():
                stale = consumer.group_metadata()._replace(generation=999)
                await producer.send_offsets_to_transaction({p0: 7}, stale)
        assert caught.value.code is ErrorCode.ILLEGAL_GENERATION
        producer.begin_transaction()
        await producer.send_offsets_to_transaction({p0: 9}, ConsumerGroupMetadata(group))
        with pytest.raises(KafkaError) as unstable:
            await other.committed([p0], timeout_ms=300)
        assert unstable.value.code is ErrorCode.UNSTABLE_OFFSET_COMMIT
        await producer.abort_transaction()
        assert (await other.committed([p0]))[p0].offset == 5


async def test_admin_fences_a_producer_and_lists_open_transactions(
    servers: str, topic: str, transactional_id: str
) -> None:
    async with Producer(servers, transactional_id=transactional_id) as producer, Admin(servers) as admin:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"high", partition=1)
        described = (await admin.describe_transactions([transactional_id]))[transactional_id]
        assert isinstance(described, TransactionDescription)
        assert (described.state, described.partitions) == ("Ongoing", (TopicPartition(topic, 1),))
        listed = await admin.list_transactions(states=["Ongoing"], pattern=transactional_id)
        assert list(listed) == [transactional_id]
        fenced = (await admin.fence_producers([transactional_id]))[transactional_id]
        assert isinstance(fenced, tuple) and fenced[0] == described.producer_id
        assert fenced[1] > described.producer_epoch
        with pytest.raises(FatalTransactionError):
            await producer.commit_transaction()


async def test_the_command_lists_transactions_and_aborts_a_hanging_one(
    servers: str, topic: str, transactional_id: str
) -> None:
    async with Producer(servers, transactional_id=transactional_id) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"high", partition=0)

        async def command(*arguments: str) -> str:
            return await asyncio.to_thread(tidelog_output, "transactions", *arguments, bootstrap=servers)

        [listed] = json.loads(await command("list", "--pattern", transactional_id, "--json"))
        assert (listed["transactional_id"], listed["state"]) == (transactional_id, "Ongoing")
        table = await command("describe", transactional_id)
        assert table.splitlines()[1].split()[-1] == f"{topic}-0"
        place = (topic, "-p", "0")
        [before] = json.loads(await command("describe-producers", *place, "--json"))
        assert before["current_transaction_start_offset"] == 0
        # Its coordinator has the transaction, so it does not hang.
        assert await command("find-hanging", "-t", topic, "--max-timeout", "0", "--json") == "[]\n"
        assert "aborted" in await command("abort", *place, "--start-offset", "0")
        [after] = json.loads(await command("describe-producers", *place, "--json"))
        assert after["current_transaction_start_offset"] is None


def test_the_command_writes_its_input_in_one_transaction_or_not_at_all(
    servers: str, topic: str, transactional_id: str
) -> None:
    writing = ("produce", topic, "-p", "0", "--transaction", transactional_id)
    assert tidelog_output(*writing, stdin=b"one\ntwo\n", bootstrap=servers) == ""
    # The broker refuses the second record, after it has accepted the first.
    bounds = ("-X", "batch.size=10", "-X", "max.request.size=4000000")
    refused = b"three\n" + bytes(2_000_000) + b"\n"
    assert "MESSAGE_TOO_LARGE" in tidelog_failure(*writing, *bounds, stdin=refused, bootstrap=servers)
    read = ("consume", topic, "-e", "--isolation", "read_committed", "-f", r"%s\n")
    assert tidelog_output(*read, bootstrap=servers) == "one\ntwo\n"


def test_an_abort_requires_the_transaction_to_be_named(servers: str, topic: str) -> None:
    place = ("transactions", "abort", topic, "-p", "0")
    assert "give --start-offset" in tidelog_failure(*place, code=2, bootstrap=servers)
    line = tidelog_failure(*place, "--start-offset", "5", code=2, bootstrap=servers)
    assert f"no open transaction of {topic}-0 begins at offset 5" in line
