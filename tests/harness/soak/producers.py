"""Idempotent producers of three libraries at a constant rate, which record their sends and the results."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer

from tests.harness.soak.history import History
from tests.harness.soak.values import value_of
from tidelog import Producer
from tidelog.local_cluster.client_settings import ClientSettings

CHUNKS_PER_S = 20
FLUSH_TIMEOUT_S = 60.0
DELIVERIES_PER_EVENT = 200


class DeliveryRecorder:
    """Records the sends and deliveries of one producer in the history; not thread-safe."""

    def __init__(self, history: History, number: int) -> None:
        self.number = number
        self._history = history
        self._process = str(number)
        self._deliveries: list[tuple[int, int, int]] = []

    def on_send(self, partition: int, first: int, count: int) -> None:
        """Record that these numbers are sent to `partition` next."""
        self._history.add(self._process, "send", "invoke", (partition, first, first + count - 1))

    def on_delivery(self, number: int, partition: int, offset: int) -> None:
        """Record an acknowledgement."""
        self._deliveries.append((number, partition, offset))
        if len(self._deliveries) >= DELIVERIES_PER_EVENT:
            self.flush()

    def on_failure(self, number: int) -> None:
        """Record a failed delivery."""
        self._history.add(self._process, "send", "info", (number,))

    def flush(self) -> None:
        """Write the deliveries that were not written yet."""
        if self._deliveries:
            self._history.add(self._process, "send", "ok", self._deliveries)
            self._deliveries = []


def chunks(rate: float, partitions: int) -> Iterable[tuple[int, int, int]]:
    """Yield partition, first number and count of each chunk without end; `rate` is records per second."""
    count = max(int(rate / CHUNKS_PER_S), 1)
    for index in itertools.count():
        yield index % partitions, index * count, count


class _ChunkTimer:
    """Schedules chunks at a constant rate; after a pause of the broker it continues from the present time."""

    def __init__(self) -> None:
        self._next_chunk_s = time.monotonic()

    def advance(self) -> None:
        self._next_chunk_s = max(self._next_chunk_s + 1 / CHUNKS_PER_S, time.monotonic() - 1.0)

    def wait_s(self) -> float:
        return max(self._next_chunk_s - time.monotonic(), 0.0)


async def run_confluent(
    clients: ClientSettings,
    topic: str,
    recorder: DeliveryRecorder,
    codec: str,
    rate: float,
    partitions: int,
    stop: threading.Event,
) -> None:
    """Produce with librdkafka in a separate thread until `stop` is set."""
    producer = ConfluentProducer(
        {
            **clients.confluent_kafka,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )

    def delivery_of(number: int) -> Callable[[Any, Any], None]:
        def report(error: Any, message: Any) -> None:
            if error is None:
                recorder.on_delivery(number, message.partition(), message.offset())
            else:
                recorder.on_failure(number)

        return report

    def work() -> None:
        timer = _ChunkTimer()
        for partition, first, count in chunks(rate, partitions):
            if stop.is_set():
                break
            recorder.on_send(partition, first, count)
            for number in range(first, first + count):
                value = value_of(recorder.number, number)
                producer.produce(topic, value, partition=partition, on_delivery=delivery_of(number))
            timer.advance()
            # A poll that reports deliveries returns early.
            while (wait_s := timer.wait_s()) > 0:
                producer.poll(wait_s)
            producer.poll(0)
        producer.flush(FLUSH_TIMEOUT_S)
        recorder.flush()

    await asyncio.to_thread(work)


Send = Callable[[bytes, int], Awaitable["asyncio.Future[Any]"]]


async def _run_asyncio(
    send: Send,
    flush: Callable[[], Awaitable[Any]],
    recorder: DeliveryRecorder,
    rate: float,
    partitions: int,
    stop: threading.Event,
) -> None:
    """Produce with an asyncio library; the two libraries differ in names only."""

    def delivery_of(number: int) -> Callable[[asyncio.Future[Any]], None]:
        def report(future: asyncio.Future[Any]) -> None:
            if future.cancelled() or future.exception() is not None:
                recorder.on_failure(number)
            else:
                metadata = future.result()
                recorder.on_delivery(number, metadata.partition, metadata.offset)

        return report

    timer = _ChunkTimer()
    for partition, first, count in chunks(rate, partitions):
        if stop.is_set():
            break
        recorder.on_send(partition, first, count)
        for number in range(first, first + count):
            future = await send(value_of(recorder.number, number), partition)
            future.add_done_callback(delivery_of(number))
        timer.advance()
        await asyncio.sleep(timer.wait_s())
    await asyncio.wait_for(flush(), FLUSH_TIMEOUT_S)
    await asyncio.sleep(0)
    recorder.flush()


async def run_aiokafka(
    clients: ClientSettings,
    topic: str,
    recorder: DeliveryRecorder,
    codec: str,
    rate: float,
    partitions: int,
    stop: threading.Event,
) -> None:
    """Produce with aiokafka until `stop` is set."""
    producer = AIOKafkaProducer(
        **clients.aiokafka,
        enable_idempotence=True,
        compression_type=codec,
        linger_ms=5,
    )
    await producer.start()

    async def send(value: bytes, partition: int) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = await producer.send(topic, value, partition=partition)
        return future

    try:
        await _run_asyncio(send, producer.flush, recorder, rate, partitions, stop)
    finally:
        await producer.stop()


async def run_tidelog(
    clients: ClientSettings,
    topic: str,
    recorder: DeliveryRecorder,
    codec: str,
    rate: float,
    partitions: int,
    stop: threading.Event,
) -> None:
    """Produce with our own producer until `stop` is set."""
    async with Producer(**clients.tidelog, compression_type=codec) as producer:

        async def send(value: bytes, partition: int) -> asyncio.Future[Any]:
            return await producer.send(topic, value, partition=partition)

        await _run_asyncio(send, producer.flush, recorder, rate, partitions, stop)


LOADS = (
    (run_confluent, "zstd"),
    (run_confluent, "lz4"),
    (run_aiokafka, "gzip"),
    (run_aiokafka, "snappy"),
    (run_tidelog, "none"),
    (run_tidelog, "zstd"),
)
"""The producers of a run: library and codec."""
