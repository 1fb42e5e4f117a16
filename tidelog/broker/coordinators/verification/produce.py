"""The transactional batches of a produce request: those that need verification, and the errors for producers.

If the coordinator could not be reached or is not ready, the error is NOT_ENOUGH_REPLICAS, upon which clients
of all versions retry without new metadata. This also applies to CONCURRENT_TRANSACTIONS, except for clients
of transaction.version 2.

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
from tidelog.protocol.views.produce_request_view import ProducePartition, ProduceRequestView
from tidelog.storage.producers.verification import NO_VERIFICATION, Verification

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionalBatches(NamedTuple):
    """The batches of a request that are part of its producer's transaction."""

    transaction: ProducerTransaction
    batches: tuple[FirstBatch, ...]


def transactional_batches(
    view: ProduceRequestView, support: ClientSupport, replicas: ReplicaManager
) -> TransactionalBatches | None:
    """Return the transactional batches; None if there are none.

    Invalid batches and batches for unknown partitions are left to the append. Raise KafkaError
    INVALID_PRODUCER_ID_MAPPING if the batches have several producers.
    """
    assert view.transactional_id is not None
    producers: set[tuple[int, int]] = set()
    batches = []
    for requested in view.partitions:
        header = _transactional_header(requested)
        if header is None:
            continue
        producers.add((header.producer_id, header.producer_epoch))
        try:
            topic_partition = replicas.resolve(requested.topic, requested.topic_id, requested.partition)
        except KafkaError:
            continue
        batches.append(FirstBatch(topic_partition, header.base_sequence))
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional records have more than one producer"
        )
    if not batches:
        return None
    ((producer_id, producer_epoch),) = producers
    transaction = ProducerTransaction(view.transactional_id, producer_id, producer_epoch, support)
    return TransactionalBatches(transaction, tuple(batches))


def _transactional_header(requested: ProducePartition) -> BatchHeader | None:
    if requested.records is None or not claims_transaction(requested.records):
        return None
    try:
        return read_header(requested.records)
    except DecodeError:
        return None


class ProduceVerifications:
    """The verifications of the transactional batches of one request."""

    def __init__(self, support: ClientSupport, verifications: Verifications) -> None:
        self._support = support
        self._verifications = verifications

    def of(self, topic_partition: TopicPartition, requested: ProducePartition) -> Verification | None:
        """Return what `Partition.append` needs. Raise KafkaError if the batch must not be appended."""
        outcome = self._verifications.get(topic_partition, NO_VERIFICATION)
        if topic_partition not in self._verifications and _transactional_header(requested) is not None:
            # The topic was created while other batches were verified. Producers retry upon this error.
            text = f"the topic of {topic_partition} has just been created"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, text)
        if not isinstance(outcome, KafkaError):
            return outcome
        is_retried = outcome.code in _RETRIABLE or (
            outcome.code is ErrorCode.CONCURRENT_TRANSACTIONS
            and self._support is not ClientSupport.ADDS_PARTITIONS
        )
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, str(outcome)) if is_retried else outcome
