"""Finds hanging transactions: they are open in a partition, but no coordinator will end them.

A transaction hangs if it is open for longer than the maximum timeout, and no coordinator knows a transaction
of its producer that includes the partition.

Source: KIP-664.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelog.base.clock import SystemClock
from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import succeeded
from tidelog.clients.admin.admin import ActiveProducer, Admin, TransactionDescription
from tidelog.clients.admin.types import TopicDescription
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, Offset, TopicPartition

_PARTITIONS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A hanging transaction; `last_timestamp` is in ms since 1970."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: Offset
    last_timestamp: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition in which it is open."""
        return TopicPartition(self.topic, self.partition)


async def find_hanging(
    admin: Admin, topics: Sequence[str], broker_id: BrokerId | None, max_timeout_ms: int
) -> tuple[list[HangingTransaction], bool]:
    """Return the hanging transactions in `topics` (empty: all topics) that are open for `max_timeout_ms`.

    The second value is False if some partitions could not be checked; their errors are printed.
    """
    names = list(topics) or sorted(await admin.list_topics(include_internal=True))
    descriptions = succeeded(await admin.describe_topics(names))
    is_complete = len(descriptions) == len(set(names))
    partitions = _partitions(descriptions.values(), broker_id)
    open_long: list[HangingTransaction] = []
    for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        some = partitions[start : start + _PARTITIONS_AT_ONCE]
        before_ms = SystemClock().wall_ms() - max_timeout_ms
        producers = succeeded(await admin.describe_producers(some))
        is_complete = is_complete and len(producers) == len(some)
        open_long += _open_for_long(producers, before_ms)
    if not open_long:
        return [], is_complete
    partitions_by_producer = await _known_transactions(
        admin, {transaction.producer_id for transaction in open_long}
    )
    hanging = [
        transaction
        for transaction in open_long
        if transaction.topic_partition not in partitions_by_producer.get(transaction.producer_id, ())
    ]
    return hanging, is_complete


def _partitions(described: Iterable[TopicDescription], broker_id: BrokerId | None) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition.partition)
        for topic in described
        for partition in topic.partitions
        if broker_id is None or broker_id in partition.replicas
    ]


def _open_for_long(
    producers: Mapping[TopicPartition, Iterable[ActiveProducer]], before_ms: int
) -> list[HangingTransaction]:
    return [
        HangingTransaction(
            topic=where.topic,
            partition=where.partition,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            coordinator_epoch=one.coordinator_epoch,
            start_offset=one.current_transaction_start_offset,
            last_timestamp=one.last_timestamp,
        )
        for where, active in producers.items()
        for one in active
        if one.current_transaction_start_offset is not None and one.last_timestamp < before_ms
    ]


async def _known_transactions(admin: Admin, producer_ids: set[int]) -> dict[int, tuple[TopicPartition, ...]]:
    """Return the partitions of these producers' transactions, as known to the coordinators."""
    listings = await admin.list_transactions(producer_ids=sorted(producer_ids))
    descriptions = await admin.describe_transactions(sorted(listings))
    partitions_by_producer: dict[int, tuple[TopicPartition, ...]] = {}
    for description in descriptions.values():
        if isinstance(description, TransactionDescription):
            partitions_by_producer[description.producer_id] = description.partitions
        elif (
            isinstance(description, KafkaError)
            and description.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        ):
            raise description
    return partitions_by_producer
