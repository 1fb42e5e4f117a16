"""Verifying that partitions are in a transaction before its first batch is appended there (KIP-890).

The log stands for the question while it is open (`tidelog.storage.producers.verification`), and lets the
batch in only
if no
marker came meanwhile. For clients of transaction.version 2 the coordinator adds the partitions. It may be
busy with the end of the transaction before this one (CONCURRENT_TRANSACTIONS): then it is asked again for
a short while, because to send the records once more costs a client more.

Source: ReplicaManager of Apache Kafka 4.3; KIP-890.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.verification.coordinator_questions import CoordinatorQuestions
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
    """A batch that may be the first of a transaction in a partition; sequence -1 for a coordinator's."""

    topic_partition: TopicPartition
    sequence: int


Verifications = dict[TopicPartition, Verification | KafkaError | None]
"""What goes into the append of each partition's batch, or why there is none; see `append_as_leader`."""


class TransactionVerifier:
    """Begins verifications and asks coordinators."""

    def __init__(
        self,
        replicas: ReplicaManager,
        questions: CoordinatorQuestions,
        clock: Clock,
        settings: Callable[[], VerificationSettings],
    ) -> None:
        self._replicas = replicas
        self._questions = questions
        self._clock = clock
        self._settings = settings

    def begin(self, transaction: ProducerTransaction, batches: Iterable[FirstBatch]) -> Verifications:
        """What is known at once: of each partition a verification begins, or it needs none, or it failed."""
        adds_partitions = transaction.support is ClientSupport.ADDS_PARTITIONS
        if not adds_partitions and not self._settings().is_enabled:
            return {batch.topic_partition: None for batch in batches}
        now_ms = self._clock.wall_ms()
        begun: Verifications = {}
        for topic_partition, sequence in batches:
            try:
                begun[topic_partition] = self._replicas.partition(topic_partition).begin_verification(
                    transaction.producer_id,
                    transaction.producer_epoch,
                    sequence,
                    now_ms,
                    supports_epoch_bump=adds_partitions,
                )
            except KafkaError as error:
                begun[topic_partition] = error
        return begun

    @staticmethod
    def must_ask(begun: Mapping[TopicPartition, Verification | KafkaError | None]) -> list[TopicPartition]:
        """The partitions that the coordinator must be asked about."""
        return [
            topic_partition
            for topic_partition, one in begun.items()
            if isinstance(one, Verification) and one is not NO_VERIFICATION
        ]

    async def verify(self, transaction: ProducerTransaction, batches: Iterable[FirstBatch]) -> Verifications:
        """`begin`, and what the coordinator says of each partition that must be asked about."""
        verifications = self.begin(transaction, batches)
        asked = self.must_ask(verifications)
        refusals = await self._questions.ask(transaction, asked) if asked else {}
        for topic_partition, code in refusals.items():
            text = f"{topic_partition} is not in transaction {transaction.transactional_id!r}: {code.name}"
            verifications[topic_partition] = KafkaError(code, text)
        return verifications

    async def verify_patiently(
        self, transaction: ProducerTransaction, batches: Collection[FirstBatch]
    ) -> Verifications:
        """`verify`, again for a while if partitions cannot be added yet: the last transaction is ending."""
        settings = self._settings()
        ask_until_ms = self._clock.monotonic_ms() + settings.retry_backoff_max_ms
        while True:
            verifications = await self.verify(transaction, batches)
            if (
                transaction.support is not ClientSupport.ADDS_PARTITIONS
                or not any(_is_busy(one) for one in verifications.values())
                or self._clock.monotonic_ms() >= ask_until_ms
            ):
                return verifications
            await asyncio.sleep(settings.retry_backoff_ms / 1000)


def _is_busy(outcome: Verification | KafkaError | None) -> bool:
    return isinstance(outcome, KafkaError) and outcome.code is ErrorCode.CONCURRENT_TRANSACTIONS
