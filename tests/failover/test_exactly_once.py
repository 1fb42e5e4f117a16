"""Consume, transform, produce with our clients while nodes are killed: each record once, in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from benchmarks.soak.history import FINAL_READER, Event
from benchmarks.soak.transaction_checker import check
from clients.consumer import Consumer
from clients.producer import Producer
from protocol.errors import KafkaError
from protocol.ids import TopicPartition
from tests.support.copiers import QUICK, Copier, transformed
from tests.support.three_nodes import ThreeNodes

PARTITIONS = 3
RECORDS = 900
KILLS = (1, 2, 3)
PACE_S = 0.025
DEADLINE_S = 60.0
Copies = dict[int, list[tuple[int, bytes, tuple[str, int, int]]]]


async def feed(servers: str) -> None:
    """The source, each partition numbered by itself, over the time in which nodes are killed."""
    async with Producer(servers, **QUICK, delivery_timeout_ms=60_000) as producer:
        for number in range(RECORDS // PARTITIONS):
            for partition in range(PARTITIONS):
                await producer.send("source", b"%d" % number, partition=partition)
            await asyncio.sleep(PACE_S)


async def kill_each_once(three: ThreeNodes) -> None:
    """One node after the other is killed, and comes back before the next one goes."""
    for node_id in KILLS:
        await asyncio.sleep(0.7)
        await asyncio.to_thread(three.cluster.kill_node, node_id)
        await asyncio.sleep(0.7)
        await asyncio.to_thread(three.cluster.start_node, node_id)
        await asyncio.to_thread(three.wait_until_whole, "target")


async def copied(servers: str) -> Copies:
    """What is committed in the target: offset, value and who wrote it."""
    found: Copies = {partition: [] for partition in range(PARTITIONS)}
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with Consumer(servers, **options, **QUICK) as consumer:
        consumer.assign([("target", partition) for partition in found])
        ends = await consumer.end_offsets([TopicPartition("target", partition) for partition in found])
        while any([await consumer.position(where) < end for where, end in ends.items()]):
            for where, records in (await consumer.poll(500)).items():
                for record in records:
                    name, transaction, number = (record.headers[0][1] or b"").decode().split("/")
                    writer = (name, int(transaction), int(number))
                    found[where.partition].append((record.offset, record.value or b"", writer))
    return found


async def until_all_is_copied(servers: str) -> Copies:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with suppress(KafkaError):
                found = await copied(servers)
                if sum(map(len, found.values())) >= RECORDS:
                    return found
            await asyncio.sleep(0.2)


def final_events(found: Copies, committed: dict[int, int]) -> list[Event]:
    """The last reading as the checker wants it."""
    events = [
        Event(
            FINAL_READER,
            "poll",
            "ok",
            [partition, [[offset, *writer] for offset, _, writer in records]],
        )
        for partition, records in found.items()
    ]
    events += [Event(FINAL_READER, "committed", "ok", [*entry]) for entry in committed.items()]
    return events


def test_a_topic_is_copied_exactly_once_while_each_node_is_killed(three: ThreeNodes) -> None:
    for topic in ("source", "target"):
        three.create_topic(topic, PARTITIONS, min_insync_replicas="2")
    events: list[Event] = []

    async def run() -> tuple[Copies, dict[int, int]]:
        copiers = [Copier(f"copier-{number}", three.servers, "source", "target", events) for number in (1, 2)]
        tasks = [asyncio.create_task(copier.run()) for copier in copiers]
        try:
            await asyncio.gather(feed(three.servers), kill_each_once(three))
            await until_all_is_copied(three.servers)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        found = await copied(three.servers)
        async with Consumer(three.servers, group_id="copiers", isolation_level="read_committed") as consumer:
            places = [TopicPartition("source", partition) for partition in range(PARTITIONS)]
            committed = await consumer.committed(places)
        return found, {where.partition: at.offset for where, at in committed.items() if at is not None}

    found, committed = asyncio.run(run())
    assert check(events + final_events(found, committed)) == []
    expected = [transformed(b"%d" % number) for number in range(RECORDS // PARTITIONS)]
    values = {partition: [value for _, value, _ in records] for partition, records in found.items()}
    assert values == dict.fromkeys(range(PARTITIONS), expected)
    assert committed == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
