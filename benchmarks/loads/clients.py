"""Client libraries with the same load: one call per message with acks=all, and reading all messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from benchmarks.loads.options import main

BATCH_BYTES: Final = 64 * 1024
LINGER_MS: Final = 5
TIMEOUT_S: Final = 60.0
POLLED_AT_ONCE: Final = 10_000


def clients(
    client: str, kind: str, servers: str, topic: str, message_bytes: int, count: int
) -> dict[str, Any]:
    """Run one library; return messages per second from the first call to the last result."""
    elapsed = _LOADS[client, kind](servers, topic, b"x" * message_bytes, count)
    return {"messages_per_s": count / elapsed}


def _on_loop(load: Callable[..., Coroutine[Any, Any, float]]) -> Callable[..., float]:
    def run(*arguments: Any) -> float:
        import uvloop

        return uvloop.run(load(*arguments))

    return run


async def _tidelog_produce(servers: str, topic: str, value: bytes, count: int) -> float:
    from tidelog.clients.producer.producer import Producer

    async with Producer(servers, batch_size=BATCH_BYTES, linger_ms=LINGER_MS) as producer:
        await producer.partitions_for(topic)
        started = time.perf_counter()
        for _ in range(count):
            await producer.send(topic, value)
        await producer.flush()
        return time.perf_counter() - started


async def _aiokafka_produce(servers: str, topic: str, value: bytes, count: int) -> float:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(
        bootstrap_servers=servers,
        enable_idempotence=True,
        max_batch_size=BATCH_BYTES,
        linger_ms=LINGER_MS,
    ) as producer:
        await producer.partitions_for(topic)
        started = time.perf_counter()
        for _ in range(count):
            await producer.send(topic, value)
        await producer.flush()
        return time.perf_counter() - started


def _confluent_produce(servers: str, topic: str, value: bytes, count: int) -> float:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "batch.size": BATCH_BYTES,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 2_000_000,
            "log_level": 0,
        }
    )
    producer.list_topics(topic, TIMEOUT_S)
    started = time.perf_counter()
    for number in range(count):
        producer.produce(topic, value)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(TIMEOUT_S)
    return time.perf_counter() - started


async def _tidelog_consume(servers: str, topic: str, _: bytes, count: int) -> float:
    from tidelog.clients.consumer.consumer import Consumer

    async with Consumer(servers, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign([(topic, partition) for partition in await consumer.partitions_for(topic)])
        started, received = time.perf_counter(), 0
        while received < count:
            found = await consumer.poll(1_000, max_records=POLLED_AT_ONCE)
            received += sum(len(records) for records in found.values())
        return time.perf_counter() - started


async def _aiokafka_consume(servers: str, topic: str, _: bytes, count: int) -> float:
    from aiokafka import AIOKafkaConsumer

    async with AIOKafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        started, received = time.perf_counter(), 0
        while received < count:
            found = await consumer.getmany(timeout_ms=1_000, max_records=POLLED_AT_ONCE)
            received += sum(len(records) for records in found.values())
        return time.perf_counter() - started


def _confluent_consume(servers: str, topic: str, _: bytes, count: int) -> float:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "log_level": 0})
    partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    started, received = time.perf_counter(), 0
    while received < count:
        received += len(consumer.consume(min(POLLED_AT_ONCE, count - received), 1.0))
    elapsed = time.perf_counter() - started
    consumer.close()
    return elapsed


_LOADS: Final[dict[tuple[str, str], Callable[..., float]]] = {
    ("tidelog", "produce"): _on_loop(_tidelog_produce),
    ("aiokafka", "produce"): _on_loop(_aiokafka_produce),
    ("confluent_kafka", "produce"): _confluent_produce,
    ("tidelog", "consume"): _on_loop(_tidelog_consume),
    ("aiokafka", "consume"): _on_loop(_aiokafka_consume),
    ("confluent_kafka", "consume"): _confluent_consume,
}


if __name__ == "__main__":
    main(clients)
