"""librdkafka as the load, through confluent-kafka: produce, consume, and one record at a time.

Messages are queued in lists (`produce_batch`), because a Python call per message would be what is
measured. Only what was acknowledged without an error counts.
"""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.loads.options import main, percentile

QUEUE_MESSAGES_MAX: Final = 200_000
QUEUE_KIBIBYTES_MAX: Final = 256 * 1024
CHUNK_BYTES: Final = 1024 * 1024
DELIVERY_TIMEOUT_S: Final = 60.0


def librdkafka(kind: str, **options: Any) -> dict[str, Any]:
    """Run the load called `kind`."""
    return {"produce": produce, "consume": consume, "latency": latency}[kind](**options)


def produce(
    servers: str, topic: str, message_bytes: int, batch_bytes: int, size_bytes: int
) -> dict[str, Any]:
    """Produce `size_bytes` of messages in batches of about `batch_bytes`, acks=1, to one partition."""
    delivered = failed = 0

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        nonlocal delivered, failed
        if error is None:
            delivered += 1
        else:
            failed += 1

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": 1,
            "linger.ms": 20,
            "batch.size": batch_bytes,
            "batch.num.messages": max(1, batch_bytes // message_bytes),
            "message.max.bytes": 2 * CHUNK_BYTES,
            "queue.buffering.max.messages": QUEUE_MESSAGES_MAX,
            "queue.buffering.max.kbytes": QUEUE_KIBIBYTES_MAX,
            "log_level": 0,
        }
    )
    producer.list_topics(topic, timeout=10)
    value = bytes(range(256)) * (message_bytes // 256 + 1)
    chunk_messages = max(1, CHUNK_BYTES // message_bytes)
    count = max(chunk_messages, size_bytes // message_bytes)
    started, queued = time.perf_counter(), 0
    while queued < count:
        # librdkafka writes into the dictionaries of messages that it could not queue.
        messages = [{"value": value[:message_bytes]} for _ in range(min(chunk_messages, count - queued))]
        while messages:
            producer.produce_batch(topic, messages, partition=0, on_delivery=on_delivery)
            unqueued = [{"value": each["value"]} for each in messages if "_error" in each]
            queued += len(messages) - len(unqueued)
            messages = unqueued
            producer.poll(0.01 if messages else 0)
    producer.flush(DELIVERY_TIMEOUT_S)
    elapsed = time.perf_counter() - started
    if failed or delivered != count:
        raise RuntimeError(f"{delivered} of {count} messages were delivered, {failed} failed")
    return {"messages_per_s": count / elapsed, "bytes_per_s": count * message_bytes / elapsed}


def consume(servers: str, topic: str, message_bytes: int, count: int) -> dict[str, Any]:
    """Read `count` messages of one partition from its start."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 4 * CHUNK_BYTES,
            "queued.min.messages": 1_000_000,
            "check.crcs": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    first = consumer.consume(1, DELIVERY_TIMEOUT_S)
    started, received = time.perf_counter(), len(first)
    while received < count:
        messages = consumer.consume(50_000, 1.0)
        received += sum(1 for message in messages if message.error() is None)
    elapsed = time.perf_counter() - started
    consumer.close()
    return {"messages_per_s": count / elapsed, "bytes_per_s": count * message_bytes / elapsed}


def latency(servers: str, topic: str, message_bytes: int, seconds: float) -> dict[str, Any]:
    """One message at a time, without lingering: microseconds from produce to its acknowledgement."""
    producer = Producer({"bootstrap.servers": servers, "acks": 1, "linger.ms": 0, "log_level": 0})
    producer.list_topics(topic, timeout=10)
    value = b"x" * message_bytes
    taken: list[float] = []
    deadline = time.perf_counter() + seconds
    while (started := time.perf_counter()) < deadline:
        producer.produce(topic, value, partition=0)
        producer.flush(DELIVERY_TIMEOUT_S)
        taken.append((time.perf_counter() - started) * 1e6)
    taken.sort()
    return {"p50_us": percentile(taken, 0.5), "p99_us": percentile(taken, 0.99), "count": len(taken)}


if __name__ == "__main__":
    main(librdkafka)
