"""Idempotent producers of three libraries at a steady rate, which note what they send and its fate."""

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

CHUNKS_PER_S = 20
FLUSH_TIMEOUT_S = 60.0
NOTE_EVERY = 200


class Notes:
    """What one producer tells the history; deliveries are noted some at a time. For any one thread."""

    def __init__(self, history: History, number: int) -> None:
        self.number = number
        self._history = history
        self._process = str(number)
        self._delivered: list[tuple[int, int, int]] = []

    def sending(self, partition: int, first: int, count: int) -> None:
        """These numbers go to `partition` next."""
        self._history.add(self._process, "send", "invoke", (partition, first, first + count - 1))

    def delivered(self, number: int, partition: int, offset: int) -> None:
        """One was acknowledged."""
        self._delivered.append((number, partition, offset))
        if len(self._delivered) >= NOTE_EVERY:
            self.flush()

    def failed(self, number: int) -> None:
        """One was given up."""
        self._history.add(self._process, "send", "info", (number,))

    def flush(self) -> None:
        """Write what was not written yet."""
        if self._delivered:
            self._history.add(self._process, "send", "ok", self._delivered)
            self._delivered = []


def chunks(rate: float, partitions: int) -> Iterable[tuple[int, int, int]]:
    """Partition, first number and count of each chunk, for ever; `rate` is records per second."""
    count = max(int(rate / CHUNKS_PER_S), 1)
    for index in itertools.count():
        yield index % partitions, index * count, count


class _Pace:
    """When the next chunk is due; after a stop of the broker it goes on from now, without a rush."""

    def __init__(self) -> None:
        self._due = time.monotonic()

    def advance(self) -> None:
        self._due = max(self._due + 1 / CHUNKS_PER_S, time.monotonic() - 1.0)

    def wait_s(self) -> float:
        return max(self._due - time.monotonic(), 0.0)


async def run_confluent(
    address: str, topic: str, notes: Notes, codec: str, rate: float, partitions: int, stop: threading.Event
) -> None:
    """librdkafka, in a thread of its own, until `stop`."""
    producer = ConfluentProducer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )

    def delivery_of(number: int) -> Callable[[Any, Any], None]:
        def note(error: Any, message: Any) -> None:
            if error is None:
                notes.delivered(number, message.partition(), message.offset())
            else:
                notes.failed(number)

        return note

    def work() -> None:
        pace = _Pace()
        for partition, first, count in chunks(rate, partitions):
            if stop.is_set():
                break
            notes.sending(partition, first, count)
            for number in range(first, first + count):
                value = value_of(notes.number, number)
                producer.produce(topic, value, partition=partition, on_delivery=delivery_of(number))
            pace.advance()
            # A poll that has deliveries to report comes back early.
            while (wait_s := pace.wait_s()) > 0:
                producer.poll(wait_s)
            producer.poll(0)
        producer.flush(FLUSH_TIMEOUT_S)
        notes.flush()

    await asyncio.to_thread(work)


Send = Callable[[bytes, int], Awaitable["asyncio.Future[Any]"]]


async def _run_asyncio(
    send: Send,
    flush: Callable[[], Awaitable[Any]],
    notes: Notes,
    rate: float,
    partitions: int,
    stop: threading.Event,
) -> None:
    """The load of both asyncio libraries: they differ in names only."""

    def delivery_of(number: int) -> Callable[[asyncio.Future[Any]], None]:
        def note(future: asyncio.Future[Any]) -> None:
            if future.cancelled() or future.exception() is not None:
                notes.failed(number)
            else:
                written = future.result()
                notes.delivered(number, written.partition, written.offset)

        return note

    pace = _Pace()
    for partition, first, count in chunks(rate, partitions):
        if stop.is_set():
            break
        notes.sending(partition, first, count)
        for number in range(first, first + count):
            future = await send(value_of(notes.number, number), partition)
            future.add_done_callback(delivery_of(number))
        pace.advance()
        await asyncio.sleep(pace.wait_s())
    await asyncio.wait_for(flush(), FLUSH_TIMEOUT_S)
    await asyncio.sleep(0)
    notes.flush()


async def run_aiokafka(
    address: str, topic: str, notes: Notes, codec: str, rate: float, partitions: int, stop: threading.Event
) -> None:
    """aiokafka, until `stop`."""
    producer = AIOKafkaProducer(
        bootstrap_servers=address, enable_idempotence=True, compression_type=codec, linger_ms=5
    )
    await producer.start()

    async def send(value: bytes, partition: int) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = await producer.send(topic, value, partition=partition)
        return future

    try:
        await _run_asyncio(send, producer.flush, notes, rate, partitions, stop)
    finally:
        await producer.stop()


async def run_own(
    address: str, topic: str, notes: Notes, codec: str, rate: float, partitions: int, stop: threading.Event
) -> None:
    """Our own producer, until `stop`."""
    async with Producer(address, compression_type=codec) as producer:

        async def send(value: bytes, partition: int) -> asyncio.Future[Any]:
            return await producer.send(topic, value, partition=partition)

        await _run_asyncio(send, producer.flush, notes, rate, partitions, stop)


LOADS = (
    (run_confluent, "zstd"),
    (run_confluent, "lz4"),
    (run_aiokafka, "gzip"),
    (run_aiokafka, "snappy"),
    (run_own, "none"),
    (run_own, "zstd"),
)
"""The producers of a run: library and codec."""
