"""librdkafka at a fixed rate: the latency of acknowledgements, and of delivery to a consumer.

Each record contains its scheduled send time, not the actual one, so that a stall counts for every record that
it delays. The consumer is a process of its own; both read the machine's
monotonic clock. The clients have their default settings (linger.ms is 5).
"""

from __future__ import annotations

import multiprocessing
import struct
import time
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.loads.options import main, percentile

WARM_UP_S: Final = 1.0
TICK_S: Final = 0.001
TIMEOUT_S: Final = 30.0
NANOSECONDS_PER_MS: Final = 1e6
_STAMP: Final = struct.Struct(">q")


def fixed_rate(
    servers: str, topic: str, message_bytes: int, per_second: int, seconds: float
) -> dict[str, Any]:
    """Produce `per_second` records for `seconds` after a second of warm-up; return percentiles in ms."""
    here, there = multiprocessing.Pipe()
    warm_up, total = int(per_second * WARM_UP_S), int(per_second * (WARM_UP_S + seconds))
    consumer = multiprocessing.Process(target=_consume, args=(there, servers, topic, total))
    consumer.start()
    there.close()
    try:
        here.recv()
        produced = _produce(servers, topic, message_bytes, per_second, total)
        consumed: list[tuple[int, float]] = here.recv()
    finally:
        consumer.kill()
        consumer.join()
    consumed.sort()
    return {
        **_percentiles("produce", produced[warm_up:]),
        **_percentiles("end_to_end", [taken for _, taken in consumed[warm_up:]]),
    }


def _produce(servers: str, topic: str, message_bytes: int, per_second: int, total: int) -> list[float]:
    """Return the milliseconds that each record took, in the order of sending."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    producer.list_topics(topic, TIMEOUT_S)
    padding = bytes(message_bytes - _STAMP.size)
    taken = [0.0] * total

    def on_delivery(number: int, scheduled_ns: int, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise RuntimeError(f"record {number} was not delivered: {error}")
        taken[number] = (time.monotonic_ns() - scheduled_ns) / NANOSECONDS_PER_MS

    started_ns, sent = time.monotonic_ns(), 0
    while sent < total:
        now_ns = time.monotonic_ns()
        scheduled = min(total, int((now_ns - started_ns) * per_second / 1e9) + 1)
        while sent < scheduled:
            at_ns = started_ns + int(sent * 1e9 / per_second)
            value = _STAMP.pack(at_ns) + padding
            producer.produce(topic, value, on_delivery=partial(on_delivery, sent, at_ns))
            sent += 1
        producer.poll(TICK_S)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("some records were not delivered")
    return taken


def _consume(control: Connection, servers: str, topic: str, total: int) -> None:
    """Read from the end of the topic; at the end, send the scheduled time and the delay of all records."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    )
    places = [
        TopicPartition(topic, partition)
        for partition in consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    ]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, TIMEOUT_S)[1]
    consumer.assign(places)
    consumer.poll(0.5)  # so that fetches are in flight
    control.send("ready")
    found: list[tuple[int, float]] = []
    deadline = time.monotonic() + TIMEOUT_S + total
    while len(found) < total and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise RuntimeError(str(message.error()))
        stamp_ns = _STAMP.unpack_from(message.value())[0]
        found.append((stamp_ns, (time.monotonic_ns() - stamp_ns) / NANOSECONDS_PER_MS))
    control.send(found)
    consumer.close()


def _percentiles(name: str, taken: list[float]) -> dict[str, float]:
    ordered = sorted(taken)
    shares = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    return {f"{name}_{label}_ms": percentile(ordered, share) for label, share in shares.items()}


if __name__ == "__main__":
    main(fixed_rate)
