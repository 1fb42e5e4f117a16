"""EndTxn: the producer commits or aborts. The end of a transaction whose time is over is here, too.

Up to transaction.version 1 a producer keeps its epoch, and an end that is asked for twice is answered twice:

| state | commit | abort |
|-------|--------|-------|
| Ongoing | PrepareCommit | PrepareAbort |
| CompleteCommit | done | INVALID_TXN_STATE |
| CompleteAbort | INVALID_TXN_STATE | done |
| Empty | INVALID_TXN_STATE | INVALID_TXN_STATE |

From version 2 on every end gives the producer its next epoch. A request with the epoch before is the same
one again, whatever has been decided since; it never ends the transaction that follows (KAFKA-17754):

| state | commit, present epoch | commit, epoch before | abort, present epoch | abort, epoch before |
|-------|---|---|---|---|
| Ongoing | PrepareCommit | PRODUCER_FENCED | PrepareAbort | PRODUCER_FENCED |
| CompleteCommit | INVALID_TXN_STATE | done | PrepareAbort | INVALID_TXN_STATE |
| CompleteAbort | INVALID_TXN_STATE | INVALID_TXN_STATE | PrepareAbort | done |
| Empty | INVALID_TXN_STATE | PRODUCER_FENCED | PrepareAbort | PRODUCER_FENCED |

While a transaction is prepared both answer CONCURRENT_TRANSACTIONS. A producer whose epochs are used up gets
a new id with the end; its last epoch of the former id is then the epoch before.

Source: KIP-890; TransactionCoordinator of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch, ProducerIdNeeded
from tidelog.broker.coordinators.transactions.metadata import (
    EPOCH_MAX,
    TRANSACTION_VERSION_2,
    TransactionMetadata,
)
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.broker.coordinators.transactions.registry import TransactionRegistry
from tidelog.broker.coordinators.transactions.safeguards import NONE_DISABLED, Safeguard, SafeguardSet
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_PRODUCER_ID, ProducerId

NO_PRODUCER: Final = ProducerIdAndEpoch()


class EndTransactionCommand:
    """See the module."""

    def __init__(self, registry: TransactionRegistry, disabled: SafeguardSet = NONE_DISABLED) -> None:
        self._registry = registry
        self._disabled = disabled

    def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        client_transaction_version: int,
        new_producer_id: ProducerId | None,
        now: Moment,
    ) -> Outcome[ProducerIdAndEpoch]:
        """The id and epoch to go on with, once that is committed; none up to transaction.version 1.

        Errors: ProducerIdNeeded unless there is a `new_producer_id`; KafkaError as above, and
        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
        """
        if client_transaction_version < TRANSACTION_VERSION_2:
            return self._end_in_same_epoch(transactional_id, producer, is_commit, now)
        metadata = self._registry.settled(transactional_id)
        is_retry = self._is_retry(metadata, producer)
        self._check_producer(metadata, producer, is_retry)
        if metadata.state is TransactionState.ONGOING:
            return self._end_in_next_epoch(metadata, is_commit, new_producer_id, now)
        if is_retry:
            _check_same_end(metadata, is_commit)
            return Outcome(ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch))
        if is_commit:
            raise _invalid_state(metadata, is_commit)
        return self._end_in_next_epoch(metadata, is_commit, new_producer_id, now)

    def _end_in_same_epoch(
        self, transactional_id: str, producer: ProducerIdAndEpoch, is_commit: bool, now: Moment
    ) -> Outcome[ProducerIdAndEpoch]:
        committed = self._registry.committed(transactional_id)
        if committed is None or committed.producer_id != producer.producer_id:
            raise _unknown_producer(transactional_id, producer)
        if committed.producer_epoch != producer.epoch:
            raise _fenced(committed, producer)
        metadata = self._registry.settled(transactional_id)
        if metadata.state is not TransactionState.ONGOING:
            _check_same_end(metadata, is_commit)
            return Outcome(NO_PRODUCER)
        ended = metadata.ended(_prepared(is_commit), 0, now.wall_ms)
        return Outcome(NO_PRODUCER, Writes((TransactionRecord(transactional_id, ended),)))

    def _end_in_next_epoch(
        self,
        metadata: TransactionMetadata,
        is_commit: bool,
        new_producer_id: ProducerId | None,
        now: Moment,
    ) -> Outcome[ProducerIdAndEpoch]:
        next_producer_id = NO_PRODUCER_ID
        if metadata.is_epoch_exhausted:
            if new_producer_id is None:
                raise ProducerIdNeeded
            next_producer_id = new_producer_id
        ended = metadata.ended(_prepared(is_commit), TRANSACTION_VERSION_2, now.wall_ms, next_producer_id)
        completed = ended.completed(now.wall_ms)
        reply = ProducerIdAndEpoch(completed.producer_id, completed.producer_epoch)
        return Outcome(reply, Writes((TransactionRecord(metadata.transactional_id, ended),)))

    def _is_retry(self, metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
        """Whether the producer has not heard of the epoch, or the id, that the last end gave it."""
        if metadata.producer_id == producer.producer_id:
            return metadata.producer_epoch == producer.epoch + 1
        return (
            metadata.previous_producer_id == producer.producer_id
            and producer.epoch == EPOCH_MAX - 1
            and metadata.producer_epoch == 0
        )

    def _check_producer(
        self, metadata: TransactionMetadata, producer: ProducerIdAndEpoch, is_retry: bool
    ) -> None:
        completes = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        if is_retry and (
            metadata.state in completes or Safeguard.AN_END_NEEDS_THE_PRESENT_EPOCH in self._disabled
        ):
            return
        if metadata.producer_id != producer.producer_id:
            raise _unknown_producer(metadata.transactional_id, producer)
        if metadata.producer_epoch != producer.epoch:
            raise _fenced(metadata, producer)


def _prepared(is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def _check_same_end(metadata: TransactionMetadata, is_commit: bool) -> None:
    """INVALID_TXN_STATE unless the transaction has ended that way."""
    state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    if metadata.state is not state:
        raise _invalid_state(metadata, is_commit)


def _invalid_state(metadata: TransactionMetadata, is_commit: bool) -> KafkaError:
    asked = "commit" if is_commit else "abort"
    text = f"{asked} of {metadata.transactional_id!r}, which is {metadata.state.value}"
    return KafkaError(ErrorCode.INVALID_TXN_STATE, text)


def _unknown_producer(transactional_id: str, producer: ProducerIdAndEpoch) -> KafkaError:
    text = f"{transactional_id!r} has another producer id than {producer.producer_id}"
    return KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)


def _fenced(metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> KafkaError:
    text = f"epoch {producer.epoch} of {metadata.transactional_id!r}, which is at {metadata.producer_epoch}"
    return KafkaError(ErrorCode.PRODUCER_FENCED, text)
