"""AddPartitionsToTxn and AddOffsetsToTxn, and the verification that a partition was added (KIP-890)."""

from __future__ import annotations

from collections.abc import Collection

from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.broker.coordinators.transactions.registry import TransactionRegistry
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition


class AddPartitionsCommand:
    """Handles AddPartitionsToTxn, with and without `verify_only`."""

    def __init__(self, registry: TransactionRegistry) -> None:
        self._registry = registry

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_transaction_version: int,
        now: Moment,
    ) -> Outcome[None]:
        """Add partitions to the transaction. The first one starts it.

        Errors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        metadata = self._registry.metadata_to_change(transactional_id)
        _check_producer(metadata, producer)
        if metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(partitions):
            return Outcome(None)
        added = metadata.prepare_add_partitions(partitions, client_transaction_version, now.wall_ms)
        return Outcome(None, Writes((TransactionRecord(transactional_id, added),)))

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for each partition of the transaction and TRANSACTION_ABORTABLE for every other.

        Only committed metadata counts: otherwise a partition could accept records of a transaction that a new
        coordinator would not know.
        Errors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        metadata = self._registry.committed_metadata(transactional_id)
        if metadata is None:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"the transactional id {transactional_id!r} is unknown"
            )
        _check_producer(metadata, producer)
        if metadata.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{transactional_id!r} is ending")
        return {
            partition: ErrorCode.NONE if partition in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }


def _check_producer(metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> None:
    if metadata.producer_id != producer.producer_id:
        text = f"{metadata.transactional_id!r} has the producer id {metadata.producer_id}, not {producer}"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
    if metadata.producer_epoch != producer.epoch:
        text = f"{metadata.transactional_id!r} has the epoch {metadata.producer_epoch}, not {producer}"
        raise KafkaError(ErrorCode.PRODUCER_FENCED, text)
