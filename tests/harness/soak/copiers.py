"""Copies of a topic in transactions: consume, transform, produce, and commit what was consumed with it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from tests.harness.soak.history import Event
from tidelog.clients.consumer.consumer import Consumer, Records
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.clients.producer.producer import DeliveryFuture, Producer
from tidelog.clients.transactions.transaction_errors import FatalTransactionError
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

_FAILS_EVERY = 5
QUICK: dict[str, Any] = {
    "request_timeout_ms": 3_000,
    "retry_backoff_max_ms": 200,
    "reconnect_backoff_max_ms": 200,
}


def transformed(value: bytes) -> bytes:
    """What becomes of a record."""
    return b"copy of " + value


class Copier:
    """A member of a group that copies `source` to `target`, partition by partition, and notes what it does.

    A fatal error ends its producer, not the copier; any other one the transaction, and so does every
    fifth of its transactions by itself, when all is written and nothing is committed.
    """

    GROUP = "copiers"

    def __init__(
        self,
        name: str,
        servers: str,
        source: str,
        target: str,
        events: list[Event],
        records_per_transaction: int,
    ) -> None:
        self.name = name
        self.servers = servers
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
                self.servers,
                transactional_id=self.name,
                delivery_timeout_ms=10_000,
                max_block_ms=15_000,
                **QUICK,
            ) as producer,
            Consumer(
                self.servers,
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
        """One transaction: all of the records, and how far they are read."""
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
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "fails by itself")
            self._note("commit", "invoke", self._number)
        for number, partition, delivery in sent:
            offset = delivery.result().offset
            if offset >= 0:
                self._note("send", "ok", [self._number, partition, number, offset])
        self._note("commit", "ok", self._number)

    async def _rewind(self, consumer: Consumer) -> None:
        """Read again from what is committed; what is not this member's any more is another's affair."""
        committed = await consumer.committed(consumer.assignment())
        for where, at in committed.items():
            with suppress(KafkaError):
                consumer.seek(where, 0 if at is None else at.offset)

    def _note(self, f: str, type: str, value: object) -> None:
        self.events.append(Event(self.name, f, type, value))
