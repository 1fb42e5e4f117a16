"""librdkafka's clients: produce with delivery reports, and consume as a group."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaError, Message, Producer


def report(error: KafkaError | None, message: Message) -> None:
    """Print where a record was written."""
    print(f"failed: {error}" if error else f"written: {message.topic()} offset {message.offset()}")


def main(servers: str) -> None:
    """Write three readings, and read them again."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for reading in ("12.1", "12.4", "12.9"):
        producer.produce("readings", reading, key="buoy-7", on_delivery=report)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "charts", "auto.offset.reset": "earliest"})
    consumer.subscribe(["readings"])
    seen = 0
    while seen < 3:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            print(f"read: {message.key().decode()} {message.value().decode()}")
            seen += 1
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1])
