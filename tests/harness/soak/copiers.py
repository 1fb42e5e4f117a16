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
QUICK: dict[str, Any] = {
    "request_timeout_ms": 3_000,
    "retry_backoff_max_ms": 200,
    "reconnect_backoff_max_ms": 200,
}


def transformed(value: bytes) -> bytes:
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
                await self._live()
            await asyncio.sleep(0.05)

    async def _live(self) -> None:
        async with (
            Producer(
                **self.clients.tidelog,
                transactional_id=self.name,
                delivery_timeout_ms=10_000,
                max_block_ms=15_000,
                **QUICK,
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
                **QUICK,
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
        sent: list[tuple[int, int, DeliveryFuture]] = []
        positions: dict[TopicPartition, OffsetAndMetadata | int] = {}
        async with producer.transaction():
            for where, found in records.items():
                for record in found:
                    number = len(sent)
                    self._note("send", "invoke", [self._number, where.partition, number])
                    value = transformed(record.value or b"")
                    headers = (("by", f"{self.name}/{self._number}/{number}".encode()),)
                    delivery = await producer.send(
                        self.target, value, headers=headers, partition=where.partition
                    )
                    sent.append((number, where.partition, delivery))
                positions[where] = found[-1].offset + 1
                self._note("offset", "invoke", [self._number, where.partition, found[-1].offset + 1])
            await producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            if self._number % _FAILS_EVERY == _FAILS_EVERY - 1:
                await producer.flush()
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "deliberate failure")
            self._note("commit", "invoke", self._number)
        for number, partition, delivery in sent:
            offset = delivery.result().offset
            if offset >= 0:
                self._note("send", "ok", [self._number, partition, number, offset])
        self._note("commit", "ok", self._number)

    async def _rewind(self, consumer: Consumer) -> None:
        """Continue from the committed offsets of the partitions that the member still has."""
        committed = await consumer.committed(consumer.assignment())
        for where, at in committed.items():
            with suppress(KafkaError):
                consumer.seek(where, 0 if at is None else at.offset)

    def _note(self, f: str, type: str, value: object) -> None:
        self.events.append(Event(self.name, f, type, value))
