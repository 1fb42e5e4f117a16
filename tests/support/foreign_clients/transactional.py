"""Transactional producers of several client libraries with one interface without coroutines.

Errors are ForeignError, with Kafka's error code if the client has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer
from kafka import KafkaProducer
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from tests.support.foreign_clients.interface import DEADLINE_S, ForeignError
from tests.support.loops.loop_thread import LOOP
from tidelog.clients.groups import group_offsets
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition

_LOCAL_ERROR = -1000
_NO_MEMBER = (-1, "", None)


class TransactionalProducer(Protocol):
    """An initialized producer with a transactional id."""

    def begin(self) -> None: ...

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        """Send a message and wait for its acknowledgement."""
        ...

    def send_offsets(self, offsets: Mapping[tuple[str, int], int], group: str) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except confluent_kafka.KafkaException as failure:
        raise ForeignError(failure.args[0].code(), repr(failure)) from failure
    except KafkaError as failure:
        raise ForeignError(failure.code, repr(failure)) from failure
    except (kafka.errors.KafkaError, aiokafka.errors.KafkaError) as failure:
        code = getattr(failure, "errno", None)
        raise ForeignError(_LOCAL_ERROR if code is None else code, repr(failure)) from failure


class ConfluentTransactions:
    """confluent_kafka.Producer."""

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._servers = servers
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,
                "linger.ms": 1,
                "log_level": 0,
            }
        )
        with _errors():
            self._producer.init_transactions(DEADLINE_S)

    def begin(self) -> None:
        with _errors():
            self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        failed: list[Any] = []
        with _errors():
            for value in values:
                self._producer.produce(
                    topic,
                    value,
                    partition=partition,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
            self._producer.flush(DEADLINE_S)
        if failed:
            raise ForeignError(failed[0].code(), str(failed[0]))

    def send_offsets(self, offsets: Mapping[tuple[str, int], int], group: str) -> None:
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": group, "log_level": 0})
        positions = [
            confluent_kafka.TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()
        ]
        try:
            with _errors():
                self._producer.send_offsets_to_transaction(
                    positions, consumer.consumer_group_metadata(), DEADLINE_S
                )
        finally:
            consumer.close()

    def commit(self) -> None:
        with _errors():
            self._producer.commit_transaction(DEADLINE_S)

    def abort(self) -> None:
        with _errors():
            self._producer.abort_transaction(DEADLINE_S)

    def close(self) -> None:
        # A fenced producer reports the error again.
        with suppress(confluent_kafka.KafkaException):
            self._producer.purge()
            self._producer.flush(1)


class AiokafkaTransactions:
    """aiokafka.AIOKafkaProducer."""

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                linger_ms=1,
            )
            await producer.start()
            return producer

        with _errors():
            self._producer = LOOP.run(start())

    def _run(self, call: Callable[[], Any]) -> None:
        async def abort_in_time() -> None:
            async with asyncio.timeout(DEADLINE_S):
                await call()

        with _errors():
            LOOP.run(abort_in_time())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction)

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        async def send() -> None:
            futures = [await self._producer.send(topic, value, partition=partition) for value in values]
            await asyncio.gather(*futures)

        self._run(send)

    def send_offsets(self, offsets: Mapping[tuple[str, int], int], group: str) -> None:
        positions = {aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        self._run(lambda: self._producer.send_offsets_to_transaction(positions, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction)

    def abort(self) -> None:
        self._run(self._producer.abort_transaction)

    def close(self) -> None:
        LOOP.run(self._producer.stop())


class KafkaPythonTransactions:
    """kafka.KafkaProducer."""

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            linger_ms=1,
        )
        with _errors():
            self._producer.init_transactions()

    def begin(self) -> None:
        with _errors():
            self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        with _errors():
            futures = [self._producer.send(topic, value, partition=partition) for value in values]
            for future in futures:
                future.get(DEADLINE_S)

    def send_offsets(self, offsets: Mapping[tuple[str, int], int], group: str) -> None:
        positions = {
            kafka.TopicPartition(*place): OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        with _errors():
            self._producer.send_offsets_to_transaction(positions, ConsumerGroupMetadata(group, *_NO_MEMBER))

    def commit(self) -> None:
        with _errors():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with _errors():
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class TidelogTransactions:
    """Tidelog's producer, which uses a new epoch for each transaction (KIP-890)."""

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        async def start() -> Producer:
            producer = Producer(
                servers, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, linger_ms=1
            )
            await producer.start()
            await producer.init_transactions()
            return producer

        with _errors():
            self._producer = LOOP.run(start())

    def begin(self) -> None:
        async def begin() -> None:
            self._producer.begin_transaction()

        with _errors():
            LOOP.run(begin())

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        async def send() -> None:
            futures = [await self._producer.send(topic, value, partition=partition) for value in values]
            await asyncio.gather(*futures)

        with _errors():
            LOOP.run(send())

    def send_offsets(self, offsets: Mapping[tuple[str, int], int], group: str) -> None:
        positions = {TopicPartition(*place): offset for place, offset in offsets.items()}
        metadata = group_offsets.ConsumerGroupMetadata(group)
        with _errors():
            LOOP.run(self._producer.send_offsets_to_transaction(positions, metadata))

    def commit(self) -> None:
        with _errors():
            LOOP.run(self._producer.commit_transaction())

    def abort(self) -> None:
        with _errors():
            LOOP.run(self._producer.abort_transaction())

    def close(self) -> None:
        with suppress(KafkaError):
            LOOP.run(self._producer.close())


TRANSACTIONAL: Mapping[str, Callable[[str, str, int], TransactionalProducer]] = {
    "confluent": ConfluentTransactions,
    "aiokafka": AiokafkaTransactions,
    "kafka-python": KafkaPythonTransactions,
    "tidelog": TidelogTransactions,
}
