"""Producers of other projects that write one record after the other, with given options of connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer

from tests.support.loops.loop_thread import LOOP
from tests.support.waiting import TIMEOUT_S


class RecordWriter(Protocol):
    """A connected producer."""

    def write(self, topic: str, value: bytes) -> None:
        """Write a record, and wait until it is acknowledged. Raise the error of the client."""
        ...

    def close(self) -> None: ...


class ConfluentWriter:
    """A producer of librdkafka; an error of a connection is raised by the next `write`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._errors: list[KafkaError] = []
        self._producer = Producer({**options, "error_cb": self._errors.append, "log_level": 0})

    def write(self, topic: str, value: bytes) -> None:
        def on_delivery(error: KafkaError | None, _: object) -> None:
            self._errors += [] if error is None else [error]

        self._producer.produce(topic, value, on_delivery=on_delivery)
        assert self._producer.flush(TIMEOUT_S) == 0
        if self._errors:
            error = self._errors[0]
            self._errors.clear()
            raise KafkaException(error)

    def close(self) -> None:
        self._producer.flush(0)


class KafkaPythonWriter:
    """A producer of kafka-python."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._producer = KafkaProducer(**options)

    def write(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value).get(TIMEOUT_S)

    def close(self) -> None:
        self._producer.close()


class AiokafkaWriter:
    """A producer of aiokafka, whose coroutines run on the event loop of the tests."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(**options)
            await producer.start()
            return producer

        self._producer = LOOP.run(start())

    def write(self, topic: str, value: bytes) -> None:
        LOOP.run(self._producer.send_and_wait(topic, value))

    def close(self) -> None:
        LOOP.run(self._producer.stop())


WRITERS: dict[str, Callable[[Mapping[str, Any]], RecordWriter]] = {
    "confluent": ConfluentWriter,
    "kafka_python": KafkaPythonWriter,
    "aiokafka": AiokafkaWriter,
}
"""The options are those of each client: names with dots for librdkafka, with underscores for the others."""
