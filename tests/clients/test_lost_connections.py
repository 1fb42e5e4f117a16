"""Connections that break all the time: what an idempotent producer wrote is there once and in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from ssl import SSLContext

import pytest

from clients.consumer import Consumer
from clients.environment import SystemEnvironment
from clients.producer import Producer
from protocol.ids import TopicPartition
from tidelog.embedded import EmbeddedCluster

PARTITIONS = 3
RECORDS = 6_000
QUICK = {
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 5,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 10,
}


class BreakingNetwork(SystemEnvironment):
    """Every connection is cut after a random time, up to `longest_ms`."""

    def __init__(self, seed: int, longest_ms: int) -> None:
        super().__init__(random.Random(seed))
        self.cuts = 0
        self._longest_ms = longest_ms

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

        def cut() -> None:
            self.cuts += 1
            transport.abort()

        loop.call_later(self.rng.randrange(1, self._longest_ms) / 1000, cut)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster(config={"num.partitions": str(PARTITIONS)}) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_records_are_written_once_and_in_order(servers: str, seed: int) -> None:
    topic = f"topic-{seed}"
    network = BreakingNetwork(seed, longest_ms=60)
    async with asyncio.timeout(40):
        async with Producer(servers, environment=network, batch_size=300, linger_ms=1, **QUICK) as producer:
            deliveries = []
            for number in range(RECORDS):
                value = str(number).encode()
                deliveries.append(await producer.send(topic, value, partition=number % PARTITIONS))
                if number % 40 == 0:
                    await asyncio.sleep(0.001)
            written = await asyncio.gather(*deliveries)
        assert network.cuts > 3
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
