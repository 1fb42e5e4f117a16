"""EndTxn: the producer commits or aborts; also the abort of a transaction that has timed out.

Up to transaction.version 1 a producer keeps its epoch, and a repeated request gets the same response:

| state | commit | abort |
|-------|--------|-------|
| Ongoing | PrepareCommit | PrepareAbort |
| CompleteCommit | no change | INVALID_TXN_STATE |
| CompleteAbort | INVALID_TXN_STATE | no change |
| Empty | INVALID_TXN_STATE | INVALID_TXN_STATE |

From version 2 on every end gives the producer its next epoch. A request with the previous epoch is a
retry, whatever has been decided since; it never ends the next transaction (KAFKA-17754):

| state | commit, current epoch | commit, previous epoch | abort, current epoch | abort, previous epoch |
|-------|---|---|---|---|
| Ongoing | PrepareCommit | PRODUCER_FENCED | PrepareAbort | PRODUCER_FENCED |
| CompleteCommit | INVALID_TXN_STATE | no change | PrepareAbort | INVALID_TXN_STATE |
| CompleteAbort | INVALID_TXN_STATE | INVALID_TXN_STATE | PrepareAbort | no change |
| Empty | INVALID_TXN_STATE | PRODUCER_FENCED | PrepareAbort | PRODUCER_FENCED |

While a transaction is prepared, both return CONCURRENT_TRANSACTIONS. A producer whose epochs are exhausted
gets a new id with the end; the last epoch of the previous id is then the previous epoch.

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
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_PRODUCER_ID, ProducerId

NO_PRODUCER: Final = ProducerIdAndEpoch()


class EndTransactionCommand:
    """Handles EndTxn requests of one coordinator; the tables above are its rules."""

    def __init__(self, registry: TransactionRegistry) -> None:
        self._registry = registry

    def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        client_transaction_version: int,
        new_producer_id: ProducerId | None,
        now: Moment,
    ) -> Outcome[ProducerIdAndEpoch]:
        """Return the id and epoch for the next transaction; none up to transaction.version 1.

        Errors: ProducerIdNeeded unless there is a `new_producer_id`; KafkaError as above, and
        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
        """
        if client_transaction_version < TRANSACTION_VERSION_2:
            return self._end_in_same_epoch(transactional_id, producer, is_commit, now)
        metadata = self._registry.metadata_to_change(transactional_id)
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
        committed = self._registry.committed_metadata(transactional_id)
        if committed is None or committed.producer_id != producer.producer_id:
            raise _unknown_producer(transactional_id, producer)
        if committed.producer_epoch != producer.epoch:
            raise _fenced(committed, producer)
        metadata = self._registry.metadata_to_change(transactional_id)
        if metadata.state is not TransactionState.ONGOING:
            _check_same_end(metadata, is_commit)
            return Outcome(NO_PRODUCER)
        prepared = metadata.prepare_end(_prepared(is_commit), 0, now.wall_ms)
        return Outcome(NO_PRODUCER, Writes((TransactionRecord(transactional_id, prepared),)))

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
        prepared = metadata.prepare_end(
            _prepared(is_commit), TRANSACTION_VERSION_2, now.wall_ms, next_producer_id
        )
        completed = prepared.prepare_complete(now.wall_ms)
        reply = ProducerIdAndEpoch(completed.producer_id, completed.producer_epoch)
        return Outcome(reply, Writes((TransactionRecord(metadata.transactional_id, prepared),)))

    def _is_retry(self, metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
        """Return whether the producer has not received the epoch, or id, that the last end gave it."""
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
        if is_retry and self._allows_previous_epoch(metadata):
            return
        if metadata.producer_id != producer.producer_id:
            raise _unknown_producer(metadata.transactional_id, producer)
        if metadata.producer_epoch != producer.epoch:
            raise _fenced(metadata, producer)

    def _allows_previous_epoch(self, metadata: TransactionMetadata) -> bool:
        """Return whether a retry of EndTxn is accepted: no other transaction has begun since."""
        return metadata.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def _prepared(is_commit: bool) -> TransactionState:
    """Return the state of a transaction that is being committed or aborted."""
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def _check_same_end(metadata: TransactionMetadata, is_commit: bool) -> None:
    """Raise INVALID_TXN_STATE unless the transaction has ended that way."""
    state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    if metadata.state is not state:
        raise _invalid_state(metadata, is_commit)


def _invalid_state(metadata: TransactionMetadata, is_commit: bool) -> KafkaError:
    end = "commit" if is_commit else "abort"
    text = f"{end} of {metadata.transactional_id!r} is not allowed in state {metadata.state.value}"
    return KafkaError(ErrorCode.INVALID_TXN_STATE, text)


def _unknown_producer(transactional_id: str, producer: ProducerIdAndEpoch) -> KafkaError:
    text = f"the producer id of {transactional_id!r} is not {producer.producer_id}"
    return KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)


def _fenced(metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> KafkaError:
    text = f"the epoch of {metadata.transactional_id!r} is {metadata.producer_epoch}, not {producer.epoch}"
    return KafkaError(ErrorCode.PRODUCER_FENCED, text)
