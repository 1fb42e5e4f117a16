"""Copies of a topic in transactions: consume, transform, produce, and commit the consumed offsets."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from tests.harness.soak.history import Event
from tidelog.clients.consumer.consumer import Consumer, Records
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.clients.producer.producer import DeliveryFuture, Producer
from tidelog.clients.transactions.transaction_errors import FatalTransactionError
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

_FAILS_EVERY = 5
SHORT_TIMEOUTS: dict[str, Any] = {
    "request_timeout_ms": 3_000,
    "retry_backoff_max_ms": 200,
    "reconnect_backoff_max_ms": 200,
}


def copy_of(value: bytes) -> bytes:
    """Return the value of a record's copy."""
    return b"copy of " + value


class Copier:
    """A group member that copies `source` to `target`, partition by partition, and records its actions.

    A fatal error ends its producer, not the copier. Other errors end the transaction. Every fifth transaction
    fails deliberately after its writes and before its commit.
    """

    GROUP = "copiers"

    def __init__(
        self,
        name: str,
        clients: ClientSettings,
        source: str,
        target: str,
        events: list[Event],
        records_per_transaction: int,
    ) -> None:
        self.name = name
        self.clients = clients
        self.source, self.target = source, target
        self.events = events
        self.records_per_transaction = records_per_transaction
        self._number = -1

    async def run(self) -> None:
        """Copy until cancelled."""
        while True:
            with suppress(KafkaError):
                await self._copy_until_error()
            await asyncio.sleep(0.05)

    async def _copy_until_error(self) -> None:
        async with (
            Producer(
                **self.clients.tidelog,
                transactional_id=self.name,
                delivery_timeout_ms=10_000,
                max_block_ms=15_000,
                **SHORT_TIMEOUTS,
            ) as producer,
            Consumer(
                **self.clients.tidelog,
                group_id=self.GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
                session_timeout_ms=6_000,
                heartbeat_interval_ms=500,
                max_poll_records=self.records_per_transaction,
                **SHORT_TIMEOUTS,
            ) as consumer,
        ):
            await producer.init_transactions()
            consumer.subscribe([self.source])
            while True:
                records = await consumer.poll(200)
                if not records:
                    continue
                try:
                    await self._copy(producer, consumer, records)
                except FatalTransactionError:
                    raise
                except KafkaError:
                    await self._rewind(consumer)

    async def _copy(self, producer: Producer, consumer: Consumer, records: Records) -> None:
        """Copy all records in one transaction, with their offsets."""
        self._number += 1
        deliveries: list[tuple[int, int, DeliveryFuture]] = []
        positions: dict[TopicPartition, OffsetAndMetadata | int] = {}
        async with producer.transaction():
            for topic_partition, polled_records in records.items():
                next_offset = polled_records[-1].offset + 1
                for record in polled_records:
                    number = len(deliveries)
                    self._record_event("send", "invoke", [self._number, topic_partition.partition, number])
                    value = copy_of(record.value or b"")
                    headers = (("by", f"{self.name}/{self._number}/{number}".encode()),)
                    delivery = await producer.send(
                        self.target, value, headers=headers, partition=topic_partition.partition
                    )
                    deliveries.append((number, topic_partition.partition, delivery))
                positions[topic_partition] = next_offset
                self._record_event("offset", "invoke", [self._number, topic_partition.partition, next_offset])
            await producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            if self._number % _FAILS_EVERY == _FAILS_EVERY - 1:
                await producer.flush()
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "deliberate failure")
            self._record_event("commit", "invoke", self._number)
        for number, partition, delivery in deliveries:
            offset = delivery.result().offset
            if offset >= 0:
                self._record_event("send", "ok", [self._number, partition, number, offset])
        self._record_event("commit", "ok", self._number)

    async def _rewind(self, consumer: Consumer) -> None:
        """Continue from the committed offsets of the partitions that the member still has."""
        committed = await consumer.committed(consumer.assignment())
        for topic_partition, committed_offset in committed.items():
            with suppress(KafkaError):
                consumer.seek(topic_partition, 0 if committed_offset is None else committed_offset.offset)

    def _record_event(self, f: str, type: str, value: object) -> None:
        self.events.append(Event(self.name, f, type, value))
