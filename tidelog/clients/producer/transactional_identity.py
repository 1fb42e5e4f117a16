"""The sequences of a producer that writes in transactions.

Pure. Unlike an idempotent producer, it does not bump its epoch or renumber batches while records are in
flight. A batch that fails makes the whole transaction fail. The next transaction begins under a new epoch, in
which the sequences of every partition start at 0.

Source: KIP-98, KIP-360.
"""

from __future__ import annotations

from typing import ClassVar

from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.clients.producer.producer_identity import ProducerIdentity
from tidelog.clients.transactions.producer_id import ProducerIdAndEpoch
from tidelog.clients.transactions.transaction_manager import TransactionManager
from tidelog.protocol.errors import ErrorCode


class TransactionalIdentity(ProducerIdentity):
    """The identity of a transactional producer; its id and epoch are those of the transaction manager."""

    is_transactional: ClassVar[bool] = True

    def __init__(self, transactions: TransactionManager) -> None:
        super().__init__()
        self._transactions = transactions

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The current id and epoch."""
        return self._transactions.producer

    def prepare(self) -> None:
        """Do nothing: sequences start again with the next transaction."""

    def can_send(self, batch: ProducerBatch) -> bool:
        """Return whether the first queued batch of a partition may be sent now."""
        is_allowed = self._transactions.can_send(batch.topic_partition, was_sent=batch.has_sequence)
        return is_allowed and super().can_send(batch)

    def on_failed(self, batch: ProducerBatch, code: ErrorCode, *, surely_not_written: bool) -> None:
        """Remove a batch that has failed for good, and make its transaction fail."""
        if batch.has_sequence:
            self._remove(batch)
        self._transactions.on_batch_failed(
            batch.topic_partition, batch.record_count, code, was_sent=batch.has_sequence
        )

    def on_expired(self, batch: ProducerBatch) -> None:
        """Remove an expired batch, of which it is unknown whether it was written."""
        self.on_failed(batch, ErrorCode.REQUEST_TIMED_OUT, surely_not_written=False)

    def can_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Return whether the batch may be sent again after this error."""
        if code not in (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            return code.retriable
        if self._transactions.lifecycle.is_rolling_back:
            return False  # neither this batch nor its predecessor will be written
        state = self._partitions[batch.topic_partition]
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return batch.sequence_was_reset or not state.is_next(batch.base_sequence)
        if log_start_offset == -1 or batch.sequence_was_reset:
            return True
        if state.last_acked_offset < log_start_offset:
            # Retention has removed all records of the producer, so the partition does not know it any more.
            state.start_at_beginning(self.producer)
            return True
        return False
