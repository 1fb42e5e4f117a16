"""What the tests of secured clusters do with the clients of Tidelog; `options` are those of each client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.types import NewTopic
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer

RECORDS = 30


async def create_topic(options: Mapping[str, Any], replication_factor: int = 3) -> str:
    """Create a topic of three partitions; return its name."""
    topic = f"topic-{uuid4().hex[:12]}"
    async with Admin(**options) as admin:
        await admin.create_topics(
            [NewTopic(name=topic, num_partitions=3, replication_factor=replication_factor)]
        )
    return topic


async def transactional_round_trip(options: Mapping[str, Any], replication_factor: int = 3) -> list[int]:
    """Write the numbers below `RECORDS` in one transaction; return what a group reads, sorted."""
    topic = await create_topic(options, replication_factor)
    producer = Producer(**options, transactional_id=topic)
    await producer.start()
    await producer.init_transactions()
    producer.begin_transaction()
    for number in range(RECORDS):
        await producer.send(topic, b"%d" % number)
    await producer.commit_transaction()
    await producer.close()
    consumer = Consumer(**options, group_id=topic, auto_offset_reset="earliest")
    await consumer.start()
    consumer.subscribe([topic])
    values: list[int] = []
    while len(values) < RECORDS:
        record = await consumer.getone(20_000)
        assert record is not None
        values.append(int(record.value or b"-1"))
    await consumer.close()
    return sorted(values)


async def produce_for(options: Mapping[str, Any], duration_s: float, replication_factor: int = 3) -> None:
    """Write one record after the other to a new topic, for `duration_s` and at least 50."""
    topic = await create_topic(options, replication_factor)
    producer = Producer(**options)
    await producer.start()
    loop, count = asyncio.get_running_loop(), 0
    ends = loop.time() + duration_s
    while loop.time() < ends or count < 50:
        await producer.send_and_wait(topic, b"value")
        count += 1
        await asyncio.sleep(0.01)
    await producer.close()
