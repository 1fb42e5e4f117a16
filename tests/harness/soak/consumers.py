"""Consumers of three libraries without a group: each reads every partition from its start."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentTopicPartition

from tests.harness.soak.history import FINAL_READER, History
from tests.harness.soak.values import writer_of
from tidelog import Consumer
from tidelog.local_cluster.client_settings import ClientSettings

POLL_S = 0.5
MOST_PER_POLL = 1000


def record_polls(
    history: History, reader: str, partition: int, records: list[tuple[int, bytes | None]]
) -> None:
    """Add the records of one partition to the history as polls of consecutive offsets."""
    run: list[tuple[int, int]] = []
    first = records[0][0]
    for offset, value in records:
        if offset != first + len(run):
            history.add(reader, "poll", "ok", (partition, first, run))
            first, run = offset, []
        run.append(writer_of(value))
    history.add(reader, "poll", "ok", (partition, first, run))


def by_partition(messages: Iterable[Any]) -> dict[int, list[tuple[int, bytes | None]]]:
    """Group the messages of confluent-kafka by partition; return their offsets and values."""
    records: dict[int, list[tuple[int, bytes | None]]] = {}
    for message in messages:
        if message.error() is None:
            records.setdefault(message.partition(), []).append((message.offset(), message.value()))
    return records


async def run_confluent(
    clients: ClientSettings, topic: str, history: History, partitions: int, stop: threading.Event
) -> None:
    """Read with librdkafka until `stop` is set."""

    def work() -> None:
        settings = {
            **clients.confluent_kafka,
            "group.id": "unused",
            "enable.auto.commit": False,
        }
        consumer = ConfluentConsumer({**settings, "reconnect.backoff.max.ms": 500, "log_level": 0})
        consumer.assign([ConfluentTopicPartition(topic, index, 0) for index in range(partitions)])
        history.add("reader-confluent", "assign", "ok", list(range(partitions)))
        while not stop.is_set():
            for partition, records in by_partition(consumer.consume(MOST_PER_POLL, POLL_S)).items():
                record_polls(history, "reader-confluent", partition, records)
        consumer.close()

    await asyncio.to_thread(work)


async def run_aiokafka(
    clients: ClientSettings, topic: str, history: History, partitions: int, stop: threading.Event
) -> None:
    """Read with aiokafka until `stop` is set."""
    consumer = AIOKafkaConsumer(
        **clients.aiokafka,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    consumer.assign([AioTopicPartition(topic, index) for index in range(partitions)])
    history.add("reader-aiokafka", "assign", "ok", list(range(partitions)))
    while not stop.is_set():
        batches = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MOST_PER_POLL)
        for topic_partition, records in batches.items():
            values = [(record.offset, record.value) for record in records]
            record_polls(history, "reader-aiokafka", topic_partition.partition, values)
    await consumer.stop()


async def run_tidelog(
    clients: ClientSettings, topic: str, history: History, partitions: int, stop: threading.Event
) -> None:
    """Read with our own consumer until `stop` is set."""
    async with Consumer(**clients.tidelog, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, index) for index in range(partitions)])
        history.add("reader-own", "assign", "ok", list(range(partitions)))
        while not stop.is_set():
            for topic_partition, records in (await consumer.poll(int(POLL_S * 1000), MOST_PER_POLL)).items():
                values = [(record.offset, record.value) for record in records]
                record_polls(history, "reader-own", topic_partition.partition, values)


READERS = (run_confluent, run_aiokafka, run_tidelog)


def read_everything(clients: ClientSettings, topic: str, history: History, partitions: int) -> dict[int, int]:
    """Read up to the present ends for the final check; return the ends."""
    settings = {
        **clients.confluent_kafka,
        "group.id": "unused",
        "enable.auto.commit": False,
    }
    consumer = ConfluentConsumer(settings)
    topic_partitions = [ConfluentTopicPartition(topic, index, 0) for index in range(partitions)]
    ends = {each.partition: consumer.get_watermark_offsets(each, timeout=30)[1] for each in topic_partitions}
    consumer.assign(topic_partitions)
    history.add(FINAL_READER, "assign", "ok", list(range(partitions)))
    missing = {partition for partition, end in ends.items() if end > 0}
    idle_polls = 0
    while missing and idle_polls < 40:
        records_by_partition = by_partition(consumer.consume(MOST_PER_POLL, POLL_S))
        idle_polls = 0 if records_by_partition else idle_polls + 1
        for partition, records in records_by_partition.items():
            record_polls(history, FINAL_READER, partition, records)
            if records[-1][0] + 1 >= ends[partition]:
                missing.discard(partition)
    consumer.close()
    return ends
