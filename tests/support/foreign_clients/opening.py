"""Opens foreign clients and closes whatever a test left open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.support.foreign_clients.interface import (
    EARLIEST,
    ConsumerOptions,
    ForeignAdmin,
    ForeignClient,
    ForeignConsumer,
    ForeignProducer,
    Message,
    ProducerOptions,
    Receipt,
    Received,
    read_exactly,
)


class Opened:
    """What a test has opened against one broker."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._closing: list[Callable[[], None]] = []

    def producer(self, client: ForeignClient, **options: Any) -> ForeignProducer:
        """A producer with ProducerOptions."""
        producer = client.producer(self.servers, ProducerOptions(**options))
        self._closing.append(producer.close)
        return producer

    def consumer(self, client: ForeignClient, **options: Any) -> ForeignConsumer:
        """A consumer with ConsumerOptions."""
        consumer = client.consumer(self.servers, ConsumerOptions(**options))
        self._closing.append(consumer.close)
        return consumer

    def admin(self, client: ForeignClient) -> ForeignAdmin:
        """An admin client."""
        admin = client.admin(self.servers)
        self._closing.append(admin.close)
        return admin

    def produce(
        self, client: ForeignClient, topic: str, messages: Iterable[Message], **options: Any
    ) -> list[Receipt]:
        """Send messages with a producer of their own and wait for the receipts."""
        producer = self.producer(client, **options)
        producer.send(topic, messages)
        receipts = producer.flush()
        self.close_early(producer)
        return receipts

    def consume(
        self,
        client: ForeignClient,
        topic: str,
        count: int,
        offsets: Mapping[int, int] | None = None,
        **options: Any,
    ) -> list[Received]:
        """Read `count` messages from partition 0, or from `offsets`, with a consumer of their own."""
        consumer = self.consumer(client, **options)
        consumer.assign(topic, {0: EARLIEST} if offsets is None else offsets)
        received = read_exactly(consumer, count)
        self.close_early(consumer)
        return received

    def close_early(self, one: ForeignProducer | ForeignConsumer | ForeignAdmin) -> None:
        """Close one of them now."""
        self._closing.remove(one.close)
        one.close()

    def forget(self, one: ForeignProducer | ForeignConsumer) -> None:
        """Leave one of them to the test."""
        self._closing.remove(one.close)

    def close(self) -> None:
        """Close everything, newest first, also when one of them fails; the first failure is raised."""
        failures: list[Exception] = []
        while self._closing:
            try:
                self._closing.pop()()
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
