"""Connections that fail repeatedly: records are written once, in order, and transactions are atomic."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from ssl import SSLContext
from typing import Any

import pytest

from tests.harness.soak.history import FINAL_READER, Event
from tests.harness.soak.transaction_checker import check
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.clients.admin.admin import Admin, UpgradeType
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster

PARTITIONS = 3
RECORDS = 6_000
RECORDS_PER_CUT = 1_000
TRANSACTIONS = 60
QUICK: dict[str, Any] = {
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 5,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 10,
}


class BreakingNetwork(SystemEnvironment):
    """A network in which every connection is closed after a random time, up to `longest_ms`."""

    def __init__(self, seed: int, longest_ms: int) -> None:
        super().__init__(random.Random(seed))
        self.cuts = 0
        self._longest_ms = longest_ms

    async def until_cut(self, count: int) -> None:
        """Return when `count` connections have been closed."""
        await eventually(lambda: self.cuts >= count)

    async def connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        ssl: SSLContext | None,
        local_host: str | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(protocol_factory, host, port)

        def abort() -> None:
            self.cuts += 1
            transport.abort()

        loop.call_later(self.rng.randrange(1, self._longest_ms) / 1000, abort)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    config = {
        "num.partitions": str(PARTITIONS),
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with EmbeddedCluster(config=config) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_records_are_written_once_in_order(servers: str, seed: int) -> None:
    topic = f"topic-{seed}"
    network = BreakingNetwork(seed, longest_ms=60)
    async with asyncio.timeout(TIMEOUT_S):
        async with Producer(servers, environment=network, batch_size=300, linger_ms=1, **QUICK) as producer:
            deliveries = []
            for number in range(RECORDS):
                value = str(number).encode()
                deliveries.append(await producer.send(topic, value, partition=number % PARTITIONS))
                if number % RECORDS_PER_CUT == 0:
                    await network.until_cut(number // RECORDS_PER_CUT)
            written = await asyncio.gather(*deliveries)
        assert network.cuts >= 5
        network = BreakingNetwork(seed, longest_ms=100)
        read: dict[TopicPartition, list[int]] = {}
        options = QUICK | {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 4_000}
        async with Consumer(servers, environment=network, **options) as consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
            while sum(map(len, read.values())) < RECORDS:
                for partition, records in (await consumer.poll(100, max_records=50)).items():
                    read.setdefault(partition, []).extend(int(record.value or b"") for record in records)
    assert read == {
        TopicPartition(topic, number): list(range(number, RECORDS, PARTITIONS))
        for number in range(PARTITIONS)
    }
    assert [entry.offset for entry in written if entry.offset >= 0] == [
        number // PARTITIONS for number, entry in enumerate(written) if entry.offset >= 0
    ]


@pytest.mark.parametrize("version", [2, 1])
async def test_transactions_are_atomic(servers: str, version: int) -> None:
    topic = f"transactions-{version}"
    upgrade = UpgradeType.UPGRADE if version == 2 else UpgradeType.SAFE_DOWNGRADE
    async with Admin(servers) as admin:
        await admin.update_features({"transaction.version": version}, upgrade_type=upgrade)
    network = BreakingNetwork(version, longest_ms=40)
    events: list[Event] = []
    async with asyncio.timeout(TIMEOUT_S):
        async with Producer(servers, environment=network, transactional_id=topic, **QUICK) as producer:
            await producer.init_transactions()
            for transaction in range(TRANSACTIONS):
                producer.begin_transaction()
                for number in range(PARTITIONS * 2):
                    partition = number % PARTITIONS
                    events.append(Event("a", "send", "invoke", [transaction, partition, number]))
                    value = f"{transaction}/{number}".encode()
                    await producer.send(topic, value, partition=partition)
                if transaction % 4 == 3:
                    await producer.flush()
                    await producer.abort_transaction()
                    events.append(Event("a", "abort", "ok", transaction))
                else:
                    events.append(Event("a", "commit", "invoke", transaction))
                    await producer.commit_transaction()
                    events.append(Event("a", "commit", "ok", transaction))
        assert network.cuts > 3
        events += await read_committed(servers, topic)
    assert check(events) == []


async def read_committed(servers: str, topic: str) -> list[Event]:
    """Return all committed records as events for the checker."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    records_by_partition: dict[int, list[list[object]]] = {number: [] for number in range(PARTITIONS)}
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with Consumer(servers, **options) as consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
            for partition, records in (await consumer.poll(100)).items():
                for record in records:
                    transaction, number = (record.value or b"").decode().split("/")
                    records_by_partition[partition.partition].append(
                        [record.offset, "a", int(transaction), int(number)]
                    )
    return [
        Event(FINAL_READER, "poll", "ok", [number, records])
        for number, records in records_by_partition.items()
    ]
