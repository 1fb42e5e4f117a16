"""Sequences of a producer that writes in transactions.

Pure. Other than for an idempotent producer no epoch is raised and no batch renumbered while records are on
their way: a batch that fails makes the whole transaction fail, and the next one begins under a new epoch,
where every partition's sequences start at 0 again.

Source: KIP-98, KIP-360.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.clients.producer.producer_identity import ProducerIdentity
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition


class Transaction(Protocol):
    """What sequences have to know of the transaction, and tell it."""

    @property
    def is_rolling_back(self) -> bool:
        """Whether its records will not be committed."""

    def allows(self, topic_partition: TopicPartition, *, was_sent: bool) -> bool:
        """Whether a batch may be sent, for the first time or again."""

    def batch_failed(self, batch: ProducerBatch, code: ErrorCode) -> None:
        """A batch was not written, or nobody knows."""


class TransactionalIdentity(ProducerIdentity):
    """The identity of one transactional producer."""

    is_transactional: ClassVar[bool] = True

    def __init__(self, transaction: Transaction) -> None:
        super().__init__()
        self._transaction = transaction

    def prepare(self) -> None:
        """Nothing: the end of the transaction settles everything."""

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether the first queued batch of a partition may be sent now."""
        allowed = self._transaction.allows(batch.topic_partition, was_sent=batch.has_sequence)
        return allowed and super().may_send(batch)

    def failed(self, batch: ProducerBatch, code: ErrorCode, *, surely_not_written: bool) -> None:
        """The batch has failed for good, and with it the transaction."""
        if batch.has_sequence:
            self._remove(batch)
        self._transaction.batch_failed(batch, code)

    def given_up(self, batch: ProducerBatch) -> None:
        """The batch expired, and nobody knows whether it was written."""
        self.failed(batch, ErrorCode.REQUEST_TIMED_OUT, surely_not_written=False)

    def may_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Whether the batch may be sent again after this error."""
        if code not in (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            return code.retriable
        if self._transaction.is_rolling_back:
            return False  # it was not written, nor will what it waits for be
        state = self._partitions[batch.topic_partition]
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return batch.sequence_was_reset or not state.is_next(batch.base_sequence)
        if log_start_offset == -1 or batch.sequence_was_reset:
            return True
        if state.last_acked_offset < log_start_offset:
            # Retention has removed all that the producer wrote: the partition knows nothing of it any more.
            state.start_at_beginning(self.producer_id, self.producer_epoch)
            return True
        return False
