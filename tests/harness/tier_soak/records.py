"""Records whose bytes are determined by topic and offset, so that readers need no history.

A topic has one partition and one idempotent producer: record n has offset n, and must exist once.
"""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Final

import confluent_kafka

VALUE_BYTES: Final = 16_000
_NOISE: Final = Random(405).randbytes(1 << 20)
_POLL_S: Final = 5.0
_POLL_RECORDS_MAX: Final = 500


def value_of(topic: str, number: int) -> bytes:
    """Return the value of the record at offset `number`."""
    start = number * 7919 % (len(_NOISE) - VALUE_BYTES)
    head = f"{topic} {number} ".encode()
    return head + _NOISE[start : start + VALUE_BYTES - len(head)]


class Writer(threading.Thread):
    """Writes `total_bytes` to a topic; `acknowledged` counts the acknowledged records from offset 0 on."""

    def __init__(self, servers: str, topic: str, total_bytes: int, bytes_per_s: float) -> None:
        super().__init__(name=f"writer {topic}", daemon=True)
        self.topic = topic
        self.total = total_bytes // VALUE_BYTES
        self.acknowledged = 0
        self.problems: list[str] = []
        self.latencies_s: list[float] = []
        self._pause_s = VALUE_BYTES / bytes_per_s
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 300_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        """Write all records."""
        next_send_s = time.monotonic()
        for number in range(self.total):
            next_send_s += self._pause_s
            time.sleep(max(0.0, next_send_s - time.monotonic()))
            self._produce(number)
        self._producer.flush(300)
        if self.acknowledged != self.total:
            self.problems.append(
                f"{self.topic}: {self.acknowledged} of {self.total} records were acknowledged"
            )

    def _produce(self, number: int) -> None:
        def on_delivery(error: object, message: confluent_kafka.Message) -> None:
            self.latencies_s.append(time.monotonic() - start_s)
            if error is not None:
                self.problems.append(f"{self.topic}: record {number} was not acknowledged: {error}")
            elif message.offset() != number:
                self.problems.append(f"{self.topic}: record {number} got offset {message.offset()}")
            else:
                self.acknowledged += 1

        while True:
            start_s = time.monotonic()
            try:
                self._producer.produce(
                    self.topic, value_of(self.topic, number), partition=0, on_delivery=on_delivery
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)


class Reader(threading.Thread):
    """Reads a topic from offset 0 to `end`, also while it is written: each record once, each byte correct.

    The values are those of `source` if the topic is mounted.
    """

    def __init__(self, servers: str, topic: str, end: int, source: str | None = None) -> None:
        super().__init__(name=f"reader {topic}", daemon=True)
        self.topic = topic
        self._source = source or topic
        self.position = 0
        self.problems: list[str] = []
        self.errors = 0
        self._end = end
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        """Read up to the end; add every error to `problems`."""
        self._consumer.assign([confluent_kafka.TopicPartition(self.topic, 0, 0)])
        while self.position < self._end and not self.problems:
            count = min(_POLL_RECORDS_MAX, self._end - self.position)
            for message in self._consumer.consume(count, min(_POLL_S, 0.002 * count + 0.2)):
                self._check(message)
        self._consumer.close()

    def _check(self, message: confluent_kafka.Message) -> None:
        if message.error() is not None:
            self.errors += 1
            if message.error().code() in (
                confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE,
                confluent_kafka.KafkaError._AUTO_OFFSET_RESET,
            ):
                self.problems.append(f"{self.topic} at {self.position}: {message.error()}")
            return
        if message.offset() != self.position:
            self.problems.append(
                f"{self.topic}: offset {message.offset()} was read, expected {self.position}"
            )
        elif message.value() != value_of(self._source, self.position):
            self.problems.append(f"{self.topic}: the record at {self.position} has other bytes")
        self.position += 1
