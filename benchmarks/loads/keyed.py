"""librdkafka fills a topic with keyed records: every key occurs twice, so half of them are superseded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Producer

from benchmarks.loads.options import main

AT_ONCE: Final = 20_000
WAITING_MAX: Final = 400_000
TIMEOUT_S: Final = 120.0
STRIDE: Final = 7_919
KEY_BYTES: Final = 14


def keyed(servers: str, topic: str, records: int, record_bytes: int, batch_bytes: int) -> dict[str, Any]:
    """Produce `records` records whose keys and values have `record_bytes` together, to partition 0."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "linger.ms": 100,
            "batch.size": batch_bytes,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    value = bytes(record_bytes - KEY_BYTES)
    keys, queued, started = record_keys(records), 0, time.perf_counter()
    while queued < records:
        messages = [{"key": next(keys), "value": value} for _ in range(min(AT_ONCE, records - queued))]
        while len(producer) > WAITING_MAX:
            producer.poll(0.002)
        if producer.produce_batch(topic, messages, partition=0) != len(messages):
            raise RuntimeError("librdkafka's queue is full")
        queued += len(messages)
        producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("some records were not delivered")
    return {"records": queued, "seconds": time.perf_counter() - started}


def record_keys(records: int) -> Iterator[bytes]:
    """Yield the keys: half as many as records, each twice, the second time in another order."""
    unique = (records + 1) // 2
    for number in range(records):
        key = number if number < unique else (number - unique) * STRIDE % unique
        yield b"key-%010d" % key


if __name__ == "__main__":
    main(keyed)
