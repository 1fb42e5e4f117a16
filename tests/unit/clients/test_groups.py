"""Consumers of one group on our own broker: all strategies, joins and departures, other clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import aiokafka
import confluent_kafka
import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from tests.support.groups.readers import OPTIONS, PARTITIONS, Log, Reader, fill
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.clients.admin.admin import Admin
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.clients.groups.rebalance_listener import RebalanceListener
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        yield cluster.bootstrap_servers


def share_all_partitions(readers: Sequence[Reader]) -> bool:
    """Return whether the readers have every partition once, and each reader at least one."""
    held = sorted(number for reader in readers for number in reader.partitions)
    return held == list(range(PARTITIONS)) and all(reader.partitions for reader in readers)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
async def test_members_join_and_leave_and_every_record_is_read(
    servers: str, topic: str, group: str, strategy: str
) -> None:
    await fill(servers, topic, 0, 60)
    options = {"partition_assignment_strategy": [strategy]}
    async with AsyncExitStack() as stack:
        readers = [
            await stack.enter_async_context(Reader(servers, topic, group, **options)) for _ in range(3)
        ]
        await eventually(lambda: share_all_partitions(readers))
        await fill(servers, topic, 60, 60)
        await eventually(lambda: {n for reader in readers for n in reader.values} == set(range(120)))
        leaver = readers.pop()
        await leaver.__aexit__()
        await eventually(lambda: share_all_partitions(readers))
        await fill(servers, topic, 120, 60)
        await eventually(lambda: {n for r in [*readers, leaver] for n in r.values} == set(range(180)))
    for reader in [*readers, leaver]:
        assert reader.log.owned_partitions() == []


async def test_an_eager_rebalance_revokes_all_partitions_before_assigning(
    servers: str, topic: str, group: str
) -> None:
    async with Reader(servers, topic, group) as first:
        await eventually(lambda: first.partitions == [0, 1, 2, 3, 4, 5])
        async with Reader(servers, topic, group) as second:
            await eventually(lambda: share_all_partitions([first, second]))
    assert first.log.events[:3] == [
        ("assigned", [0, 1, 2, 3, 4, 5]),
        ("revoked", [0, 1, 2, 3, 4, 5]),
        ("assigned", first.log.events[2][1]),
    ]


async def test_a_cooperative_rebalance_revokes_only_moving_partitions(
    servers: str, topic: str, group: str
) -> None:
    options = {"partition_assignment_strategy": ["cooperative-sticky"]}
    async with Reader(servers, topic, group, **options) as first:
        await eventually(lambda: first.partitions == [0, 1, 2, 3, 4, 5])
        async with Reader(servers, topic, group, **options) as second:
            await eventually(lambda: share_all_partitions([first, second]))
            moved = second.partitions
            assert ("revoked", moved) in first.log.events
            assert ("assigned", moved) in second.log.events
            assert len(moved) == 3


async def test_no_record_is_read_twice_when_members_close_in_order(
    servers: str, topic: str, group: str
) -> None:
    await fill(servers, topic, 0, 100)
    values: list[int] = []
    for _ in range(4):
        async with Consumer(servers, group_id=group, max_poll_records=25, **OPTIONS) as consumer:
            consumer.subscribe([topic])
            records = await consumer.poll(10_000)
            values += [int(record.value or b"") for batch in records.values() for record in batch]
    assert sorted(values) == list(range(100))


async def test_a_static_member_restarts_without_a_rebalance(servers: str, topic: str, group: str) -> None:
    async with Reader(servers, topic, group, group_instance_id="dock-1") as other:
        async with Reader(servers, topic, group, group_instance_id="dock-2") as leaver:
            await eventually(lambda: share_all_partitions([other, leaver]))
            held = leaver.partitions
            events = list(other.log.events)
        async with Reader(servers, topic, group, group_instance_id="dock-2") as returned:
            await eventually(lambda: returned.partitions == held)
            assert other.log.events == events


async def test_two_consumers_with_one_instance_id_fence_each_other(
    servers: str, topic: str, group: str
) -> None:
    options = OPTIONS | {"group_id": group, "group_instance_id": "dock-1"}
    async with Consumer(servers, **options) as old:
        old.subscribe([topic])
        async with asyncio.timeout(TIMEOUT_S):
            while not old.assignment():
                await old.poll(100)
        async with Reader(servers, topic, group, group_instance_id="dock-1") as new:
            await eventually(lambda: len(new.partitions) == PARTITIONS)
            with pytest.raises(KafkaError) as caught:
                async with asyncio.timeout(TIMEOUT_S):
                    while True:
                        await old.poll(100)
            assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID


async def test_a_member_that_exceeds_max_poll_interval_leaves_and_rejoins(
    servers: str, topic: str, group: str
) -> None:
    log = Log()
    options = OPTIONS | {"group_id": group, "max_poll_interval_ms": 400}
    async with Consumer(servers, **options) as consumer, Admin(servers) as admin:
        consumer.subscribe([topic], listener=log)
        async with asyncio.timeout(TIMEOUT_S):
            while not consumer.assignment():
                await consumer.poll(100)
            await until_empty(admin, group)
            while log.events[-1][0] != "assigned" or len(log.events) < 3:
                await consumer.poll(100)
    everything = list(range(PARTITIONS))
    assert log.events[:3] == [("assigned", everything), ("lost", everything), ("assigned", everything)]


async def until_empty(admin: Admin, group: str) -> None:
    """Wait until the group has no member."""
    while True:
        description = (await admin.describe_groups([group]))[group]
        assert not isinstance(description, KafkaError)
        if not description.members:
            return


async def test_a_pattern_matches_topics_created_later(servers: str, group: str) -> None:
    prefix = f"pier-{uuid4().hex[:6]}"
    async with Admin(servers) as admin:
        await admin.create_topic(f"{prefix}-a", num_partitions=1)
        options = OPTIONS | {"group_id": group, "metadata_max_age_ms": 100}
        async with Consumer(servers, **options) as consumer:
            consumer.subscribe(pattern=f"{prefix}-.*")
            async with asyncio.timeout(TIMEOUT_S):
                while len(consumer.assignment()) < 1:
                    await consumer.poll(50)
                await admin.create_topic(f"{prefix}-b", num_partitions=1)
                while len(consumer.assignment()) < 2:
                    await consumer.poll(50)
            assert consumer.subscription() == {f"{prefix}-a", f"{prefix}-b"}


async def test_a_new_subscription_releases_the_partitions_of_the_previous_one(
    servers: str, topic: str, group: str
) -> None:
    await fill(servers, topic, 0, PARTITIONS)
    old, new = Log(), Log()
    async with Consumer(servers, group_id=group, **OPTIONS) as consumer:
        consumer.subscribe([topic], listener=old)
        await until_assigned(consumer, PARTITIONS)
        consumer.subscribe(pattern="no-such-.*", listener=new)
        async with asyncio.timeout(TIMEOUT_S):
            while len(new.events) < 2:
                await consumer.poll(50)
        assert consumer.subscription() == frozenset()
        assert new.events == [("revoked", list(range(PARTITIONS))), ("assigned", [])]
        consumer.subscribe([topic])
        await until_assigned(consumer, PARTITIONS)
    assert old.events == [("assigned", list(range(PARTITIONS)))]
    assert len(new.events) == 2


async def test_a_pattern_without_matching_topics_joins_no_group(servers: str, group: str) -> None:
    async with Consumer(servers, group_id=group, **OPTIONS) as consumer, Admin(servers) as admin:
        consumer.subscribe(pattern="no-such-.*")
        for _ in range(5):
            await consumer.poll(50)
        assert group not in await admin.list_groups()


async def until_assigned(consumer: Consumer, count: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while len(consumer.assignment()) != count:
            await consumer.poll(50)


async def test_close_during_a_revocation_leaves_no_member(servers: str, topic: str, group: str) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    class SlowLog(Log):
        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:  # type: ignore[override]
            if not entered.is_set():
                entered.set()
                await leave.wait()

    consumer = Consumer(servers, group_id=group, **OPTIONS)
    await consumer.start()
    consumer.subscribe([topic], listener=SlowLog())
    await until_assigned(consumer, PARTITIONS)
    async with Reader(servers, topic, group):
        polling = asyncio.create_task(consumer.poll(30_000))
        async with asyncio.timeout(TIMEOUT_S):
            await entered.wait()
            await consumer.close()
        leave.set()
        done, _ = await asyncio.wait({polling}, timeout=TIMEOUT_S)
        assert done and "closed" in str(polling.exception())
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "tidelog-join"]


async def test_a_listener_without_on_lost_is_notified_by_on_revoked(
    servers: str, topic: str, group: str
) -> None:
    class ShortListener:
        def __init__(self) -> None:
            self.events: list[str] = []

        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            self.events.append("revoked")

        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            self.events.append("assigned")

    class InheritingListener(RebalanceListener):
        def __init__(self) -> None:
            self.events: list[str] = []

        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            self.events.append("revoked")

        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            self.events.append("assigned")

    options = OPTIONS | {"max_poll_interval_ms": 300}
    for listener in (ShortListener(), InheritingListener()):
        async with Consumer(servers, group_id=group, **options) as consumer, Admin(servers) as admin:
            consumer.subscribe([topic], listener=listener)  # type: ignore[arg-type]
            await until_assigned(consumer, PARTITIONS)
            async with asyncio.timeout(TIMEOUT_S):
                await until_empty(admin, group)
                while len(listener.events) < 3:
                    await consumer.poll(50)
        assert listener.events[:3] == ["assigned", "revoked", "assigned"]


async def test_an_invalid_listener_is_refused(servers: str, group: str) -> None:
    async with Consumer(servers, group_id=group) as consumer:
        for listener in (lambda partitions: None, object()):
            with pytest.raises(TypeError, match="has no method on_partitions_revoked"):
                consumer.subscribe(["tides"], listener=listener)  # type: ignore[arg-type]
        assert consumer.subscription() == frozenset()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("leave", [Consumer.close, Consumer.unsubscribe], ids=["close", "unsubscribe"])
async def test_a_listener_can_commit_when_the_consumer_leaves(
    servers: str, topic: str, group: str, strategy: str, leave: Callable[[Consumer], Awaitable[None]]
) -> None:
    await fill(servers, topic, 0, PARTITIONS)

    class CommittingLog(Log):
        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:  # type: ignore[override]
            super().on_partitions_revoked(partitions)
            positions = {partition: await consumer.position(partition) for partition in partitions}
            await consumer.commit(positions)
            assert (await consumer.committed(partitions)).keys() == positions.keys()

    log = CommittingLog()
    options = OPTIONS | {"enable_auto_commit": False, "partition_assignment_strategy": [strategy]}
    async with Consumer(servers, group_id=group, **options) as consumer:
        consumer.subscribe([topic], listener=log)
        read = 0
        async with asyncio.timeout(TIMEOUT_S):
            while read < PARTITIONS:
                read += sum(map(len, (await consumer.poll(100)).values()))
        await leave(consumer)
        assert log.events[-1] == ("revoked", list(range(PARTITIONS)))
    async with Admin(servers) as admin:
        committed = await admin.list_group_offsets(group)
    assert {at.offset for at in committed.values()} == {1}
    assert len(committed) == PARTITIONS


async def test_positions_are_committed_at_close_after_an_older_manual_commit(
    servers: str, topic: str, group: str
) -> None:
    await fill(servers, topic, 0, PARTITIONS * 2)
    options = OPTIONS | {"group_id": group, "auto_commit_interval_ms": 10}
    first = TopicPartition(topic, 0)
    async with Consumer(servers, **options) as consumer, Admin(servers) as admin:
        consumer.subscribe([topic])
        async with asyncio.timeout(TIMEOUT_S):
            while (await admin.list_group_offsets(group)).get(first) != OffsetAndMetadata(2, "", 0):
                await consumer.poll(50)
        await consumer.commit({first: 0})
    async with Admin(servers) as admin:
        assert (await admin.list_group_offsets(group))[first].offset == 2


async def test_polling_continues_during_an_asynchronous_commit(servers: str, topic: str, group: str) -> None:
    await fill(servers, topic, 0, PARTITIONS * 2)
    first = TopicPartition(topic, 0)
    options = OPTIONS | {"group_id": group, "enable_auto_commit": False}
    async with Consumer(servers, **options) as consumer, Admin(servers) as admin:
        consumer.subscribe([topic])
        records = 0
        async with asyncio.timeout(TIMEOUT_S):
            while not records:
                records = sum(map(len, (await consumer.poll(100)).values()))
            begun = consumer.commit_async({first: 1})
            while records < PARTITIONS * 2:
                records += sum(map(len, (await consumer.poll(100)).values()))
            await begun
        assert (await admin.list_group_offsets(group))[first].offset == 1


async def test_added_partitions_are_assigned_without_a_new_member(
    servers: str, topic: str, group: str
) -> None:
    async with Admin(servers) as admin, Reader(servers, topic, group, metadata_max_age_ms=100) as reader:
        await eventually(lambda: len(reader.partitions) == PARTITIONS)
        assert (await admin.create_partitions({topic: PARTITIONS + 2})) == {topic: None}
        await eventually(lambda: len(reader.partitions) == PARTITIONS + 2)


async def test_commits_of_a_removed_member_are_refused(servers: str, topic: str, group: str) -> None:
    await fill(servers, topic, 0, 12)
    options = OPTIONS | {"group_id": group, "enable_auto_commit": False, "max_poll_interval_ms": 300}
    async with Consumer(servers, **options) as consumer, Admin(servers) as admin:
        consumer.subscribe([topic])
        async with asyncio.timeout(TIMEOUT_S):
            while not await consumer.poll(100):
                pass
            await until_empty(admin, group)
        with pytest.raises(KafkaError) as caught:
            await consumer.commit()
        # A call before the response to LeaveGroup gets the error from the broker.
        refusals = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
        assert caught.value.code in refusals
        assert await admin.list_group_offsets(group) == {}


async def test_a_failing_listener_is_logged_and_polling_continues(
    servers: str, topic: str, group: str
) -> None:
    class Failing(Log):
        async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            await super().on_partitions_assigned(partitions)
            raise RuntimeError("this listener always fails")

    await fill(servers, topic, 0, 12)
    async with Consumer(servers, group_id=group, **OPTIONS) as consumer:
        consumer.subscribe([topic], listener=Failing())
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(RuntimeError, match="this listener always fails"):
                while True:
                    await consumer.poll(100)
            assert len(consumer.assignment()) == PARTITIONS
            while not await consumer.poll(100):
                pass


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
async def test_a_group_is_shared_with_confluent_kafka(
    servers: str, topic: str, group: str, strategy: str
) -> None:
    await fill(servers, topic, 0, 60)
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 100,
        }
    )
    their_values: set[int] = set()

    def read() -> None:
        for message in theirs.consume(100, 0.05):
            if message.error() is None:
                their_values.add(int(message.value()))

    theirs.subscribe([topic])
    async with Reader(servers, topic, group, partition_assignment_strategy=[strategy]) as ours:
        async with asyncio.timeout(TIMEOUT_S):
            while len(ours.partitions) != 3 or len(theirs.assignment()) != 3:
                await asyncio.to_thread(read)
            await fill(servers, topic, 60, 60)
            while (their_values | set(ours.values)) != set(range(120)):
                await asyncio.to_thread(read)
        numbers = ours.partitions + [partition.partition for partition in theirs.assignment()]
        assert sorted(numbers) == list(range(PARTITIONS))
        await asyncio.to_thread(theirs.close)


async def test_a_group_is_shared_with_aiokafka(servers: str, topic: str, group: str) -> None:
    await fill(servers, topic, 0, 60)
    theirs = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    await theirs.start()
    their_values: set[int] = set()
    try:
        async with Reader(servers, topic, group, partition_assignment_strategy=["range"]) as ours:
            async with asyncio.timeout(TIMEOUT_S):
                while len(ours.partitions) != 3 or (their_values | set(ours.values)) != set(range(60)):
                    for messages in (await theirs.getmany(timeout_ms=50)).values():
                        their_values |= {int(message.value) for message in messages}
            assert len(theirs.assignment()) == 3
    finally:
        await theirs.stop()


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crash"])
async def test_a_group_and_a_producer_survive_a_restart_of_the_broker(clean: bool, group: str) -> None:
    with EmbeddedCluster() as cluster:
        servers = cluster.bootstrap_servers
        async with Admin(servers) as admin:
            await admin.create_topic("tides", num_partitions=PARTITIONS)
        quick: dict[str, Any] = {
            "reconnect_backoff_ms": 10,
            "reconnect_backoff_max_ms": 50,
            "retry_backoff_ms": 10,
        }
        async with Producer(servers, **quick) as producer, Reader(servers, "tides", group, **quick) as reader:

            async def send(first: int) -> None:
                for number in range(first, first + 300):
                    await producer.send("tides", str(number).encode(), partition=number % PARTITIONS)
                await producer.flush()

            await send(0)
            await eventually(lambda: len(reader.values) >= 300)
            sending = asyncio.create_task(send(300))
            await asyncio.to_thread(cluster.restart, clean=clean)
            await sending
            await eventually(lambda: set(reader.values) == set(range(600)))
        async with Consumer(servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("tides", number) for number in range(PARTITIONS)])
            values: list[int] = []
            async with asyncio.timeout(TIMEOUT_S):
                while len(values) < 600:
                    for records in (await consumer.poll(500)).values():
                        values += [int(record.value or b"") for record in records]
            assert sorted(values) == list(range(600)), "an idempotent producer writes every record once"
