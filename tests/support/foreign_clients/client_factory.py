"""Opens the clients of a test and closes those that the test left open."""

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


class ClientFactory:
    """The clients that a test opened for one broker."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._closing: list[Callable[[], None]] = []

    def producer(self, client: ForeignClient, **options: Any) -> ForeignProducer:
        """Open a producer with ProducerOptions."""
        producer = client.producer(self.servers, ProducerOptions(**options))
        self._closing.append(producer.close)
        return producer

    def consumer(self, client: ForeignClient, **options: Any) -> ForeignConsumer:
        """Open a consumer with ConsumerOptions."""
        consumer = client.consumer(self.servers, ConsumerOptions(**options))
        self._closing.append(consumer.close)
        return consumer

    def admin(self, client: ForeignClient) -> ForeignAdmin:
        """Open an admin client."""
        admin = client.admin(self.servers)
        self._closing.append(admin.close)
        return admin

    def produce(
        self, client: ForeignClient, topic: str, messages: Iterable[Message], **options: Any
    ) -> list[Receipt]:
        """Send messages with a new producer and wait for the acknowledgements."""
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
        """Read `count` messages from partition 0, or from `offsets`, with a new consumer."""
        consumer = self.consumer(client, **options)
        consumer.assign(topic, {0: EARLIEST} if offsets is None else offsets)
        received = read_exactly(consumer, count)
        self.close_early(consumer)
        return received

    def close_early(self, one: ForeignProducer | ForeignConsumer | ForeignAdmin) -> None:
        """Close one client now."""
        self._closing.remove(one.close)
        one.close()

    def keep_open(self, one: ForeignProducer | ForeignConsumer) -> None:
        """Leave closing of one client to the test."""
        self._closing.remove(one.close)

    def close(self) -> None:
        """Close all clients, newest first, even if one fails; the first error is raised."""
        failures: list[Exception] = []
        while self._closing:
            try:
                self._closing.pop()()
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
