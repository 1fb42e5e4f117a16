"""A producer and a consumer of librdkafka at maximum speed, and their rates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import linear_regression
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer, ThrottleEvent, TopicPartition

from tidelog.clients.admin.admin import Admin

CLIENT_ID: Final = "rate-measurement"
VALUE: Final = bytes(10_000)


@dataclass
class Throughput:
    """The bytes of a client's records, the elapsed time, and the throttle times from librdkafka."""

    size_bytes: int = 0
    elapsed_s: float = 0.0
    throttle_times_s: list[float] = field(default_factory=list)
    totals: list[tuple[float, int]] = field(default_factory=list)
    """The bytes at the end of each second, with the time."""

    @property
    def rate(self) -> float:
        """Return the average bytes per second."""
        return self.size_bytes / self.elapsed_s

    @property
    def sustained_rate(self) -> float:
        """Return the slope of the bytes over time.

        The average depends on the phase: with default windows a client may send ten seconds' bytes at once.
        """
        return linear_regression(*zip(*self.totals, strict=True)).slope

    def add(self, size_bytes: int) -> None:
        """Count bytes that were produced or consumed now."""
        self.size_bytes += size_bytes
        now_s = monotonic()
        if not self.totals or now_s - self.totals[-1][0] >= 1:
            self.totals.append((now_s, self.size_bytes))

    def on_throttle(self, event: ThrottleEvent) -> None:
        """Keep the throttle time; a throttle_cb of librdkafka."""
        self.throttle_times_s.append(event.throttle_time)


def set_quotas(servers: str, quotas: Mapping[str, float | None], client_id: str | None = CLIENT_ID) -> None:
    """Set or remove quotas of a client id; None is the default of all client ids."""

    async def alter() -> None:
        async with Admin(bootstrap_servers=servers) as admin:
            outcome = await admin.alter_client_quotas({(("client-id", client_id),): quotas})
            assert not any(outcome.values()), outcome

    asyncio.run(alter())


def produce(
    servers: str, topic: str, duration_s: float, *, max_bytes: int | None = None, warm_up_s: float = 0
) -> Throughput:
    """Produce for `duration_s` after `warm_up_s`, or until `max_bytes` are acknowledged."""
    throughput = Throughput()

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        if start_s <= monotonic() <= end_s:
            throughput.add(len(VALUE))

    producer = Producer(
        {
            **_common(servers, throughput),
            "linger.ms": 10,
            "batch.size": 100_000,
            "queue.buffering.max.kbytes": 2_000,
            "message.timeout.ms": 600_000,
        }
    )
    start_s = monotonic() + warm_up_s
    end_s = start_s + duration_s
    while monotonic() < end_s and (max_bytes is None or throughput.size_bytes < max_bytes):
        try:
            producer.produce(topic, VALUE, on_delivery=on_delivery)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    throughput.elapsed_s = monotonic() - start_s
    producer.purge()
    return throughput


def consume(
    servers: str, topic: str, duration_s: float, *, max_bytes: int | None = None, warm_up_s: float = 0
) -> Throughput:
    """Consume from the beginning for `duration_s` after `warm_up_s`, or until `max_bytes` were consumed."""
    throughput = Throughput()
    consumer = Consumer(
        {**_common(servers, throughput), "group.id": CLIENT_ID, "queued.max.messages.kbytes": 200}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    start_s = monotonic() + warm_up_s
    end_s = start_s + duration_s
    while monotonic() < end_s and (max_bytes is None or throughput.size_bytes < max_bytes):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None and monotonic() >= start_s:
            value = message.value()
            throughput.add(len(value) if value is not None else 0)
    throughput.elapsed_s = monotonic() - start_s
    consumer.close()
    return throughput


def _common(servers: str, throughput: Throughput) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "client.id": CLIENT_ID, "throttle_cb": throughput.on_throttle}
