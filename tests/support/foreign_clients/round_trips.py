"""One record that a client of another project writes and reads, with given options of its connections.

Each function creates a topic with a random name, and returns the number of records that it read, 0 or 1.
It raises PermissionError if the client is not authenticated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.support.waiting import TIMEOUT_S


def confluent_round_trip(options: Mapping[str, Any]) -> int:
    """Write and read one record with librdkafka."""
    topic, errors = _topic(), list[KafkaError]()
    producer = Producer({**options, "error_cb": errors.append})
    producer.produce(topic, b"value")
    deadline = time.monotonic() + TIMEOUT_S
    while producer.flush(0.1) and not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
        assert time.monotonic() < deadline, errors
    if errors:
        producer.purge()
        raise PermissionError(str(errors[0]))
    consumer = Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(TIMEOUT_S)
        return 0 if message is None or message.error() else 1
    finally:
        consumer.close()


def kafka_python_round_trip(options: Mapping[str, Any]) -> int:
    """Write and read one record with kafka-python."""
    topic = _topic()
    try:
        producer = KafkaProducer(**options, bootstrap_timeout_ms=3_000)
    except Exception as error:
        raise PermissionError(str(error)) from error
    producer.send(topic, b"value").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, **options, auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT_S * 1000)
    )
    try:
        return 1 if next(iter(consumer), None) is not None else 0
    finally:
        consumer.close()


def aiokafka_round_trip(options: Mapping[str, Any]) -> int:
    """Write and read one record with aiokafka, on an event loop of its own."""
    return asyncio.run(_aiokafka_round_trip(options))


async def _aiokafka_round_trip(options: Mapping[str, Any]) -> int:
    topic = _topic()
    producer = AIOKafkaProducer(**options)
    try:
        await producer.start()
    except Exception as error:
        await producer.stop()
        raise PermissionError(str(error)) from error
    await producer.send_and_wait(topic, b"value")
    await producer.stop()
    consumer = AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest")
    await consumer.start()
    try:
        return 1 if await asyncio.wait_for(consumer.getone(), TIMEOUT_S) else 0
    finally:
        await consumer.stop()


def _topic() -> str:
    return f"topic-{uuid4().hex[:12]}"
