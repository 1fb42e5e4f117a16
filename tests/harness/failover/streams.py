"""A Kafka Streams application under faults: group.protocol=streams, exactly_once_v2, two instances.

It writes one count for each word that it reads. One instance after the other is killed and started again,
with the same state directory. At the end each word of the input must be counted exactly once.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import KafkaError as ConfluentError

from tests.harness.failover.count_checker import find_miscounts, words_of
from tests.harness.soak.copiers import SHORT_TIMEOUTS
from tests.kafka.streams_application import Instance
from tidelog.clients.admin.admin import Admin, NewTopic
from tidelog.clients.producer.producer import Producer
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.protocol.errors import KafkaError

BROKER_SETTINGS: Final = {
    "group.streams.session.timeout.ms": "10000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.num.standby.replicas": "1",
    "group.streams.initial.rebalance.delay.ms": "1000",
}
PROPERTIES: Final = {
    # One count is written for each word.
    "statestore.cache.max.bytes": "0",
    # The transaction of an instance that was killed delays readers for at most this time.
    "producer.transaction.timeout.ms": "10000",
}
LINES, COUNTS = "lines", "counts"
PARTITIONS: Final = 3
WORDS: Final = 40
LINES_PER_SECOND: Final = 20
RESTART_EVERY_S: Final = 30.0
COMPLETE_WITHIN_S: Final = 600.0
READ_EVERY_S: Final = 2.0
READ_TIMEOUT_S: Final = 30.0
_COUNT: Final = struct.Struct(">q")


class StreamsLoad:
    """The application, its input, and the check of its output; `directory` is created."""

    def __init__(self, clients: ClientSettings, jars: Path, directory: Path) -> None:
        self._clients = clients
        self._jars = jars
        self._directory = directory
        self._instances: list[Instance] = []
        self._acknowledged: Counter[str] = Counter()
        self.restarts = 0
        self.counted = 0

    async def create_topics(self, admin: Admin) -> None:
        """Create the topics of input and output."""
        topics = [
            NewTopic(name=name, num_partitions=PARTITIONS, configs={"min.insync.replicas": "2"})
            for name in (LINES, COUNTS)
        ]
        for result in (await admin.create_topics(topics)).values():
            if isinstance(result, KafkaError):
                raise result

    async def run_during(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the application and write its input until `work` ends."""
        self._directory.mkdir()
        self._instances = [self._start(number) for number in range(2)]
        stop = asyncio.Event()
        tasks = [
            asyncio.create_task(each) for each in (self._write_lines(stop), self._restart_instances(stop))
        ]
        try:
            await work
            stop.set()
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def finish(self) -> list[str]:
        """Wait until the input is counted, and end the application; return what is wrong."""
        occurrences = words_of(await self._lines())
        # After the timeout the check reports what is missing.
        with suppress(TimeoutError):
            async with asyncio.timeout(COMPLETE_WITHIN_S):
                while sum(map(len, (await self._counts()).values())) < occurrences.total():
                    self._start_ended_instances()
                    await asyncio.sleep(READ_EVERY_S)
        self._start_ended_instances()
        for instance in self._instances:
            await asyncio.to_thread(instance.close)
        counts = await self._counts()
        self.counted = sum(map(len, counts.values()))
        problems = find_miscounts(self._acknowledged, occurrences, counts)
        return [*problems, *([] if self.counted else ["no word was counted"])]

    def kill(self) -> None:
        """Kill the instances that run."""
        for instance in self._instances:
            instance.kill()

    def _start(self, number: int) -> Instance:
        clients, directory = self._clients, self._directory / f"instance-{number}"
        properties = (f"{key}={value}" for key, value in {**clients.properties, **PROPERTIES}.items())
        return Instance.start(
            self._jars, clients.bootstrap_servers, directory, "exactly_once_v2", *properties
        )

    async def _restart_instances(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RESTART_EVERY_S)
                return
            self._start_ended_instances()
            number = self.restarts % len(self._instances)
            await asyncio.to_thread(self._instances[number].kill)
            self._instances[number] = self._start(number)
            self.restarts += 1

    def _start_ended_instances(self) -> None:
        """Start instances again that ended with an error, as a supervisor of processes does."""
        for number, instance in enumerate(self._instances):
            if instance.process.poll() is not None:
                self._instances[number] = self._start(number)

    async def _write_lines(self, stop: asyncio.Event) -> None:
        options: dict[str, Any] = {"delivery_timeout_ms": 60_000, **SHORT_TIMEOUTS}
        async with Producer(**self._clients.tidelog, **options) as producer:
            number = 0
            while not stop.is_set():
                line = f"word{number % WORDS} word{number * 7 % WORDS}"
                with suppress(KafkaError):
                    delivery = await producer.send(LINES, line.encode(), partition=number % PARTITIONS)
                    delivery.add_done_callback(partial(self._on_delivery, line))
                number += 1
                await asyncio.sleep(1 / LINES_PER_SECOND)

    def _on_delivery(self, line: str, done: asyncio.Future[Any]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._acknowledged.update(line.split())

    async def _counts(self) -> dict[str, list[int]]:
        counts: dict[str, list[int]] = {}
        for key, value in await asyncio.to_thread(self._read_topic, COUNTS):
            counts.setdefault(key.decode(), []).append(_COUNT.unpack(value)[0])
        return counts

    async def _lines(self) -> list[str]:
        return [value.decode() for _, value in await asyncio.to_thread(self._read_topic, LINES)]

    def _read_topic(self, topic: str) -> list[tuple[bytes, bytes]]:
        """Return keys and values of the committed records, in the order of each partition."""
        settings = {
            **self._clients.confluent_kafka,
            "group.id": "count-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        records: list[tuple[bytes, bytes]] = []
        ended: set[int] = set()
        try:
            while len(ended) < PARTITIONS:
                message = consumer.poll(READ_TIMEOUT_S)
                if message is None:
                    raise TimeoutError(f"no record of topic {topic} for {READ_TIMEOUT_S:.0f} s")
                error, partition = message.error(), message.partition()
                if error is None:
                    records.append((message.key() or b"", message.value() or b""))
                elif error.code() == ConfluentError._PARTITION_EOF and partition is not None:
                    ended.add(partition)
                elif not error.retriable():
                    raise KafkaException(error)
        finally:
            consumer.close()
        return records
