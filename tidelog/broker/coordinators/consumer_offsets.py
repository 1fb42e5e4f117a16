"""Writes of transactions to the partitions of `__consumer_offsets` that this node leads.

Source: org.apache.kafka.coordinator.common.runtime.PartitionWriter.
"""

from __future__ import annotations

from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.coordinator_logs import (
    appended_records,
    check_batch_size,
)
from tidelog.broker.coordinators.groups.transactions import EndOfTransaction, TransactionalProducer
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.state_log import AppendedRecords
from tidelog.broker.coordinators.verification.transaction import ClientSupport, ProducerTransaction
from tidelog.broker.coordinators.verification.verifier import FirstBatch, TransactionVerifier
from tidelog.broker.partitions.partition import ACKS_ALL, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.control_batch import end_transaction_batch
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import NO_SEQUENCE, TopicPartition
from tidelog.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.log.partition_log import AppendInfo

_BASE_SEQUENCE: Final = 0
"""The batches that a coordinator writes are not numbered; Kafka's have this sequence."""


class TransactionalOffsetsLog:
    """Implements `tidelog.broker.coordinators.groups.transactions.TransactionalLog`."""

    def __init__(
        self,
        replicas: ReplicaManager,
        verifier: TransactionVerifier,
        fetch_purgatory: Purgatory,
        clock: Clock,
        compression: Compression,
    ) -> None:
        self._replicas = replicas
        self._verifier = verifier
        self._fetch_purgatory = fetch_purgatory
        self._clock = clock
        self._compression = compression

    async def verify_producer(
        self, partition: int, request: TxnOffsetCommitRequest, version: int
    ) -> TransactionalProducer:
        """Return the producer if the partition is part of its transaction. Raise KafkaError if it is not."""
        topic_partition = TopicPartition(GROUP_METADATA_TOPIC, partition)
        transaction = ProducerTransaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            ClientSupport.of_txn_offset_commit(version),
        )
        batch = FirstBatch(topic_partition, NO_SEQUENCE)
        verification = (await self._verifier.verify_with_retries(transaction, (batch,)))[topic_partition]
        if isinstance(verification, KafkaError):
            try:
                raise verification
            finally:
                del verification  # Its traceback refers to this frame, which would be a reference cycle.
        return TransactionalProducer(request.producer_id, request.producer_epoch, verification)

    def append_in_transaction(
        self, partition: int, encoded: EncodedRecords, producer: TransactionalProducer
    ) -> AppendedRecords:
        """Append all records as one batch. Raise KafkaError if no record has been appended."""
        leader, now_ms = self._partition(partition), self._clock.wall_ms()
        check_batch_size(leader, encoded.size_bytes, self._compression)
        builder = BatchBuilder(
            compression=self._compression,
            producer=BatchProducer(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=_BASE_SEQUENCE,
                is_transactional=True,
            ),
        )
        for key, value in encoded.records:
            builder.append(now_ms, key, value)
        info = leader.append(
            builder.build(),
            ACKS_ALL,
            now_ms,
            AppendOrigin.COORDINATOR,
            verification=producer.verification,
        )
        return appended_records(leader, info, self._replicas, self._fetch_purgatory)

    def append_marker(self, partition: int, end: EndOfTransaction) -> AppendedRecords:
        """Append the marker that ends a transaction. Raise KafkaError if it has not been appended."""
        leader, now_ms = self._partition(partition), self._clock.wall_ms()
        info = append_marker(leader, end, now_ms)
        return appended_records(leader, info, self._replicas, self._fetch_purgatory)

    def _partition(self, partition: int) -> Partition:
        return self._replicas.partition(TopicPartition(GROUP_METADATA_TOPIC, partition))


def append_marker(partition: Partition, end: EndOfTransaction, now_ms: int) -> AppendInfo:
    """Append the marker that ends a transaction to a partition that this node leads.

    Errors: KafkaError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, and those of any append.
    """
    marker = end_transaction_batch(
        committed=end.is_commit,
        coordinator_epoch=end.coordinator_epoch,
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        timestamp=now_ms,
    )
    return partition.append(
        marker, ACKS_ALL, now_ms, AppendOrigin.COORDINATOR, transaction_version=end.transaction_version
    )
