"""The transactional batches of a produce request: which need to be verified, and what their producer hears.

That the coordinator could not be asked, or is not ready, is told as NOT_ENOUGH_REPLICAS, which clients of all
ages try again without new metadata; so is CONCURRENT_TRANSACTIONS, but to clients of transaction.version 2.

Source: ReplicaManager.handleProduceAppend of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.broker.coordinators.verification.transaction import ClientSupport, ProducerTransaction
from tidelog.broker.coordinators.verification.verifier import FirstBatch, Verifications
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.protocol.batch import BatchHeader, claims_transaction, read_header
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.produce_view import ProducePartition, ProduceRequestView
from tidelog.storage.producers.verification import NO_VERIFICATION, Verification

_TRIED_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionalBatches(NamedTuple):
    """What of a request is part of its producer's transaction."""

    transaction: ProducerTransaction
    batches: tuple[FirstBatch, ...]


def transactional_batches(
    view: ProduceRequestView, support: ClientSupport, replicas: ReplicaManager
) -> TransactionalBatches | None:
    """The batches that say they are part of a transaction; None when there are none.

    What is no batch, or for no partition, is left to those who append it.
    Errors: KafkaError INVALID_PRODUCER_ID_MAPPING when they are of several producers.
    """
    assert view.transactional_id is not None
    producers: set[tuple[int, int]] = set()
    batches = []
    for asked in view.partitions:
        header = _transactional_header(asked)
        if header is None:
            continue
        producers.add((header.producer_id, header.producer_epoch))
        try:
            topic_partition = replicas.resolve(asked.topic, asked.topic_id, asked.partition)
        except KafkaError:
            continue
        batches.append(FirstBatch(topic_partition, header.base_sequence))
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional records are of more than one producer"
        )
    if not batches:
        return None
    ((producer_id, producer_epoch),) = producers
    transaction = ProducerTransaction(view.transactional_id, producer_id, producer_epoch, support)
    return TransactionalBatches(transaction, tuple(batches))


def _transactional_header(asked: ProducePartition) -> BatchHeader | None:
    if asked.records is None or not claims_transaction(asked.records):
        return None
    try:
        return read_header(asked.records)
    except DecodeError:
        return None


class ProduceVerifications:
    """What goes into the append of each transactional batch of a request."""

    def __init__(self, support: ClientSupport, verifications: Verifications) -> None:
        self._support = support
        self._verifications = verifications

    def of(self, topic_partition: TopicPartition, asked: ProducePartition) -> Verification | None:
        """See `append_as_leader`; KafkaError with the producer's code when the batch must not be appended."""
        found = self._verifications.get(topic_partition, NO_VERIFICATION)
        if topic_partition not in self._verifications and _transactional_header(asked) is not None:
            # Others of the request were being verified when it came. Producers come again upon this.
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"the topic of {topic_partition} has just come")
        if not isinstance(found, KafkaError):
            return found
        is_retried = found.code in _TRIED_AGAIN or (
            found.code is ErrorCode.CONCURRENT_TRANSACTIONS
            and self._support is not ClientSupport.ADDS_PARTITIONS
        )
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, str(found)) if is_retried else found
