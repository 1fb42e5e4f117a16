"""A compacted topic: a few keys are written again and again, and read at the end."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Final

import confluent_kafka

_KEYS: Final = 200
_VALUE: Final = b"x" * 2000
_WRITES_PER_S: Final = 400
_READ_TIMEOUT_S: Final = 120.0
COMPACTED_TOPIC: Final = "compacted"
COMPACTED_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "min.insync.replicas": "2",
}


class CompactedTopic(threading.Thread):
    """Writes a few keys again and again; `check` reads what compaction has left."""

    def __init__(self, servers: str, seed: int) -> None:
        super().__init__(name="compacted", daemon=True)
        self.problems: list[str] = []
        self.written = self.retained = 0
        self._servers = servers
        self._random = Random(seed)
        self._latest: dict[bytes, int] = {}
        self._is_ended = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        """Write until `end`."""
        while not self._is_ended.wait(1 / _WRITES_PER_S):
            key = b"key %d" % self._random.randrange(_KEYS)
            try:
                self._producer.produce(
                    COMPACTED_TOPIC, b"%d %s" % (self.written, _VALUE), key, on_delivery=self._on_delivery
                )
            except BufferError:
                self._producer.poll(0.1)
                continue
            self._latest[key] = self.written
            self.written += 1
            self._producer.poll(0)
        self._producer.flush(300)

    def _on_delivery(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.problems.append(f"{COMPACTED_TOPIC}: a record was not acknowledged: {error}")

    def end(self) -> None:
        """Stop writing, and wait until all records are acknowledged."""
        self._is_ended.set()
        self.join()

    def check(self) -> None:
        """Compare the newest record of each key, and how many records remain, with what was written."""
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._servers, "group.id": "unused", "enable.auto.commit": False}
        )
        place = confluent_kafka.TopicPartition(COMPACTED_TOPIC, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=_READ_TIMEOUT_S)
        consumer.assign([place])
        latest: dict[bytes, int] = {}
        deadline = time.monotonic() + _READ_TIMEOUT_S
        self.retained = 0
        while consumer.position([place])[0].offset < end and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.5):
                if message.error() is None:
                    self.retained += 1
                    latest[message.key()] = int(message.value().split()[0])
        consumer.close()
        wrong = [key for key, number in self._latest.items() if latest.get(key) != number]
        if wrong:
            key = wrong[0]
            self.problems.append(
                f"{COMPACTED_TOPIC}: {len(wrong)} keys do not have their last value; "
                f"{key.decode()} has {latest.get(key)}, expected {self._latest[key]}"
            )
        if 2 * self.retained > self.written:
            self.problems.append(
                f"{COMPACTED_TOPIC}: {self.retained} of {self.written} records remain after compaction"
            )
