"""librdkafka as the load, through confluent-kafka: produce, fill, consume, and one record at a time.

Messages are queued in lists (`produce_batch`): otherwise the cost of a Python call per message would
dominate. At the end, the end offsets are queried, to check that all messages were stored.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.loads.options import main, percentile

QUEUE_MESSAGES_MAX: Final = 1_000_000
QUEUE_KIBIBYTES_MAX: Final = 64 * 1024
# What waits in the queue: whole batches for all partitions, yet not so much that none of it is in a cache.
WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
WAIT_S: Final = 0.002
CHUNK_BYTES: Final = 200_000
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
# Batches shall leave because they are full, not because they have waited.
LINGER_MS: Final = 1_000
STATISTICS_MS: Final = 200
TIMEOUT_S: Final = 60.0
CONSUMED_AT_ONCE: Final = 20_000


def librdkafka(kind: str, **options: Any) -> dict[str, Any]:
    """Run the load called `kind`."""
    loads: dict[str, Callable[..., dict[str, Any]]] = {
        "produce": produce,
        "fill": fill,
        "consume": consume,
        "latency": latency,
    }
    return loads[kind](**options)


class _Load:
    """A producer of full batches, and librdkafka's statistics of its requests."""

    def __init__(
        self,
        topic: str,
        message_bytes: int,
        batch_bytes: int,
        acks: int,
        connection: Mapping[str, str],
    ) -> None:
        self._producer = Producer(
            {
                **connection,
                "acks": acks,
                "linger.ms": LINGER_MS,
                "batch.size": batch_bytes,
                "batch.num.messages": QUEUE_MESSAGES_MAX,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "queue.buffering.max.messages": QUEUE_MESSAGES_MAX,
                "queue.buffering.max.kbytes": QUEUE_KIBIBYTES_MAX,
                "statistics.interval.ms": STATISTICS_MS,
                "stats_cb": self._on_statistics,
                "log_level": 0,
            }
        )
        self._connection, self._topic = connection, topic
        self.partitions = self._create_partitions()
        self._messages = [
            {"value": b"x" * message_bytes} for _ in range(max(1, CHUNK_BYTES // message_bytes))
        ]
        self._waiting_max = WAITING_BYTES_MAX // message_bytes
        self._statistics: list[dict[str, Any]] = []
        self.queued = 0
        self._stored_before = self._message_count()

    def _create_partitions(self) -> list[int]:
        """Return the topic's partitions; the request creates the topic, which takes some time."""
        deadline = time.perf_counter() + TIMEOUT_S
        while time.perf_counter() < deadline:
            found = self._producer.list_topics(self._topic, TIMEOUT_S).topics[self._topic].partitions
            if found:
                return sorted(found)
            time.sleep(0.01)
        raise RuntimeError(f"topic {self._topic} was not made within {TIMEOUT_S} s")

    def queue(self, partition: int, count: int | None = None) -> None:
        """Queue a chunk of messages, or `count` messages, when the queue has space."""
        messages = self._messages if count is None else self._messages[:count]
        # Repeated attempts until the queue has space would keep a core busy, mostly with a slow server.
        while len(self._producer) > self._waiting_max:
            self._producer.poll(WAIT_S)
        queued = self._producer.produce_batch(self._topic, messages, partition=partition)
        self.queued += queued
        self._producer.poll(0)

    def finish(self) -> None:
        """Wait until all messages are delivered; raise RuntimeError if one is missing."""
        self._producer.flush(TIMEOUT_S)

    def check_arrived(self) -> None:
        """Raise RuntimeError unless the server has every message that was queued."""
        arrived = self._message_count() - self._stored_before
        if arrived != self.queued:
            raise RuntimeError(f"{arrived} of {self.queued} messages have arrived")

    def _message_count(self) -> int:
        """Return the number of messages in the topic's partitions."""
        consumer = Consumer({**self._connection, "group.id": "unused", "log_level": 0})
        ends = [
            consumer.get_watermark_offsets(TopicPartition(self._topic, partition), TIMEOUT_S)[1]
            for partition in self.partitions
        ]
        consumer.close()
        return sum(ends)

    def request_statistics(self) -> dict[str, float]:
        """Return the average batch size in bytes and the round trips in microseconds, from the statistics."""
        windows = [each for each in self._statistics if each["topics"][self._topic]["batchsize"]["cnt"]]
        batches = [each["topics"][self._topic]["batchsize"] for each in windows]
        trips = [
            broker["rtt"] for each in windows for broker in each["brokers"].values() if broker["rtt"]["cnt"]
        ]
        return {
            "batch_bytes_average": sum(each["sum"] for each in batches)
            / sum(each["cnt"] for each in batches),
            "round_trip_p50_us": percentile(sorted(each["p50"] for each in trips), 0.5),
            "round_trip_p99_us": percentile(sorted(each["p99"] for each in trips), 0.5),
        }

    def _on_statistics(self, text: str) -> None:
        found = json.loads(text)
        if self._topic in found["topics"]:
            self._statistics.append(found)


def produce(
    servers: str,
    topic: str,
    message_bytes: int,
    batch_bytes: int,
    seconds: float,
    acks: int = 1,
    client: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Produce as much as possible in `seconds`, in full batches, to all partitions one after the other.

    Round trips are the medians of the p50 and p99 that librdkafka reports every 200 ms.
    """
    load = _Load(topic, message_bytes, batch_bytes, acks, _connection(servers, client))
    started, turn = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        load.queue(load.partitions[turn % len(load.partitions)])
        turn += 1
    load.finish()
    elapsed = time.perf_counter() - started
    load.check_arrived()
    return {
        "messages": load.queued,
        "messages_per_s": load.queued / elapsed,
        "bytes_per_s": load.queued * message_bytes / elapsed,
        **load.request_statistics(),
    }


def fill(
    servers: str,
    topic: str,
    message_bytes: int,
    batch_bytes: int,
    partition_bytes: int,
    acks: int = 1,
    client: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Produce `partition_bytes` to each partition of a topic."""
    load = _Load(topic, message_bytes, batch_bytes, acks, _connection(servers, client))
    per_partition = partition_bytes // message_bytes
    for number, partition in enumerate(load.partitions, 1):
        while (missing := number * per_partition - load.queued) > 0:
            load.queue(partition, missing)
    load.finish()
    load.check_arrived()
    return {"messages": load.queued}


def consume(
    servers: str, topics: Sequence[str], message_bytes: int, client: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Read every message of the topics once, from the start; measure from the first message on."""
    consumer = Consumer(
        {
            **_connection(servers, client),
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.min.messages": QUEUE_MESSAGES_MAX,
            "queued.max.messages.kbytes": 4 * QUEUE_KIBIBYTES_MAX,
            "log_level": 0,
        }
    )
    places = [
        TopicPartition(topic, partition, 0)
        for topic in topics
        for partition in consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    ]
    total = sum(consumer.get_watermark_offsets(place, TIMEOUT_S)[1] for place in places)
    consumer.assign(places)
    received = len(consumer.consume(1, TIMEOUT_S))
    started, first = time.perf_counter(), received
    while received < total:
        messages = consumer.consume(min(CONSUMED_AT_ONCE, total - received), TIMEOUT_S)
        failed = next((message.error() for message in messages if message.error()), None)
        if failed or not messages:
            raise RuntimeError(f"{received} of {total} messages were read: {failed}")
        received += len(messages)
    elapsed = time.perf_counter() - started
    consumer.close()
    count = received - first
    return {"messages_per_s": count / elapsed, "bytes_per_s": count * message_bytes / elapsed}


def latency(servers: str, topic: str, message_bytes: int, seconds: float, acks: int = 1) -> dict[str, Any]:
    """Send one message at a time without linger; return microseconds from produce to acknowledgement."""
    producer = Producer({"bootstrap.servers": servers, "acks": acks, "linger.ms": 0, "log_level": 0})
    producer.list_topics(topic, TIMEOUT_S)
    value = b"x" * message_bytes
    taken: list[float] = []
    deadline = time.perf_counter() + seconds
    while (started := time.perf_counter()) < deadline:
        producer.produce(topic, value, partition=0)
        producer.flush(TIMEOUT_S)
        taken.append((time.perf_counter() - started) * 1e6)
    taken.sort()
    return {"p50_us": percentile(taken, 0.5), "p99_us": percentile(taken, 0.99), "count": len(taken)}


def _connection(servers: str, client: Mapping[str, str] | None) -> dict[str, str]:
    """Return the settings of a connection; `client` contains its security settings."""
    return {"bootstrap.servers": servers, **(client or {})}


if __name__ == "__main__":
    main(librdkafka)
