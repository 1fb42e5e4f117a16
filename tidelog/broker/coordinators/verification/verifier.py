"""Verifies that partitions are in a transaction before its first batch is appended there (KIP-890).

The log stores the state of an open verification (`tidelog.storage.producers.verification`), and accepts the
batch only if no marker was written in between. For clients of transaction.version 2 the coordinator adds the
partitions. While the previous transaction is ending, it returns CONCURRENT_TRANSACTIONS. Then the request is
retried for a short time, because a retry of the client costs more.

Source: ReplicaManager of Apache Kafka 4.3; KIP-890.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.verification.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from tidelog.broker.coordinators.verification.transaction import ClientSupport, ProducerTransaction
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.producers.verification import NO_VERIFICATION, Verification


@dataclass(frozen=True, slots=True)
class VerificationSettings:
    """Kafka's keys transaction.partition.verification.enable and add.partitions.to.txn.retry.backoff.*."""

    is_enabled: bool
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class FirstBatch(NamedTuple):
    """A batch that may be the first of a transaction in a partition; a coordinator's has the sequence -1."""

    topic_partition: TopicPartition
    sequence: int


Verifications = dict[TopicPartition, Verification | KafkaError | None]
"""The verification that `Partition.append` needs for each partition, or the error of the verification."""


class TransactionVerifier:
    """Starts verifications and sends them to coordinators."""

    def __init__(
        self,
        replicas: ReplicaManager,
        manager: AddPartitionsToTxnManager,
        clock: Clock,
        settings: Callable[[], VerificationSettings],
    ) -> None:
        self._replicas = replicas
        self._manager = manager
        self._clock = clock
        self._settings = settings

    def begin(self, transaction: ProducerTransaction, batches: Iterable[FirstBatch]) -> Verifications:
        """Return for each partition the verification that starts, None if it needs none, or an error."""
        adds_partitions = transaction.support is ClientSupport.ADDS_PARTITIONS
        if not adds_partitions and not self._settings().is_enabled:
            return {batch.topic_partition: None for batch in batches}
        now_ms = self._clock.wall_ms()
        verifications: Verifications = {}
        for topic_partition, sequence in batches:
            try:
                partition = self._replicas.partition(topic_partition)
                partition.require_leader()
                verification = partition.log.producers.begin_verification(
                    transaction.producer_id,
                    transaction.producer_epoch,
                    sequence,
                    now_ms,
                    supports_epoch_bump=adds_partitions,
                )
                verifications[topic_partition] = verification or NO_VERIFICATION
            except KafkaError as error:
                verifications[topic_partition] = error
        return verifications

    @staticmethod
    def unverified(
        verifications: Mapping[TopicPartition, Verification | KafkaError | None],
    ) -> list[TopicPartition]:
        """Return the partitions that the coordinator must verify."""
        return [
            topic_partition
            for topic_partition, one in verifications.items()
            if isinstance(one, Verification) and one is not NO_VERIFICATION
        ]

    async def verify(self, transaction: ProducerTransaction, batches: Iterable[FirstBatch]) -> Verifications:
        """Start the verifications, and return the result of the coordinator for each partition."""
        verifications = self.begin(transaction, batches)
        unverified = self.unverified(verifications)
        errors = await self._manager.add_or_verify(transaction, unverified) if unverified else {}
        for topic_partition, code in errors.items():
            text = f"{topic_partition} is not in transaction {transaction.transactional_id!r}: {code.name}"
            verifications[topic_partition] = KafkaError(code, text)
        return verifications

    async def verify_with_retries(
        self, transaction: ProducerTransaction, batches: Collection[FirstBatch]
    ) -> Verifications:
        """Do the same as `verify`, and retry while the previous transaction is still ending.

        Wait `retry_backoff_ms` before a retry. After `retry_backoff_max_ms` there is no further one, and the
        result has CONCURRENT_TRANSACTIONS. Only producers that add partitions implicitly need retries.
        """
        settings = self._settings()
        deadline_ms = self._clock.monotonic_ms() + settings.retry_backoff_max_ms
        while True:
            verifications = await self.verify(transaction, batches)
            if (
                transaction.support is not ClientSupport.ADDS_PARTITIONS
                or not any(_is_busy(one) for one in verifications.values())
                or self._clock.monotonic_ms() >= deadline_ms
            ):
                return verifications
            await asyncio.sleep(settings.retry_backoff_ms / 1000)


def _is_busy(outcome: Verification | KafkaError | None) -> bool:
    return isinstance(outcome, KafkaError) and outcome.code is ErrorCode.CONCURRENT_TRANSACTIONS
