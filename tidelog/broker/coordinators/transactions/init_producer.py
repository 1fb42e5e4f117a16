"""InitProducerId of a transactional id: a producer begins, or goes on after an error (KIP-360).

| state | asked without an epoch | with the present id and epoch | with the epoch before | with any other |
|-------|------------------------|-------------------------------|-----------------------|----------------|
| none yet | new id, epoch 0 | same | same | same |
| Empty, Complete... | epoch + 1 | epoch + 1 | the present epoch again | PRODUCER_FENCED |
| the same, no epochs left | new id, epoch 0 | new id, epoch 0 | the present epoch again | PRODUCER_FENCED |
| Ongoing | aborted, CONCURRENT_TRANSACTIONS | same | same | same, but PRODUCER_FENCED for another id |
| Prepare... | CONCURRENT_TRANSACTIONS | same | same | same |

"With the epoch before" also stands for the last epoch of the id before: its answer may have been lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata, is_exhausted
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.broker.coordinators.transactions.registry import TransactionRegistry
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerId


class ProducerIdNeeded(Exception):
    """The command needs a producer id that nobody has: call it again with one."""


class ProducerIdAndEpoch(NamedTuple):
    """What a producer calls itself."""

    producer_id: ProducerId = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class InitProducerCommand:
    """See the module; `transaction_version` is the cluster's level of that feature."""

    def __init__(
        self,
        registry: TransactionRegistry,
        config: TransactionConfig,
        transaction_version: Callable[[], int],
    ) -> None:
        self._registry = registry
        self._config = config
        self._transaction_version = transaction_version

    def init_producer(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        new_producer_id: ProducerId | None,
        now: Moment,
    ) -> Outcome[ProducerIdAndEpoch]:
        """The id and epoch to go on with, once that is committed.

        A reply without an id stands for CONCURRENT_TRANSACTIONS: the former producer's transaction is
        being aborted.
        Errors: ProducerIdNeeded unless there is a `new_producer_id`; KafkaError as above, and
        INVALID_TRANSACTION_TIMEOUT.
        """
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            text = f"{timeout_ms} ms, at most {self._config.transaction_max_timeout_ms} are allowed"
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, text)
        if self._registry.get(transactional_id) is None:
            created = TransactionMetadata(
                transactional_id=transactional_id,
                producer_id=_needed(new_producer_id),
                timeout_ms=timeout_ms,
                last_update_wall_ms=now.wall_ms,
            )
            return self._begin(created, created.producer_id, 0, NO_PRODUCER_EPOCH, timeout_ms, now)
        metadata = self._registry.settled(transactional_id)
        if expected is not None and not _is_known(metadata, expected):
            text = f"{transactional_id!r} has the producer id {metadata.producer_id}, not {expected}"
            raise KafkaError(ErrorCode.PRODUCER_FENCED, text)
        if metadata.state is TransactionState.ONGOING:
            aborted = metadata.fenced().ended(
                TransactionState.PREPARE_ABORT, self._transaction_version(), now.wall_ms
            )
            return Outcome(ProducerIdAndEpoch(), Writes((TransactionRecord(transactional_id, aborted),)))
        return self._go_on(metadata, expected, timeout_ms, new_producer_id, now)

    def _go_on(
        self,
        metadata: TransactionMetadata,
        expected: ProducerIdAndEpoch | None,
        timeout_ms: int,
        new_producer_id: ProducerId | None,
        now: Moment,
    ) -> Outcome[ProducerIdAndEpoch]:
        """No transaction is under way."""
        epoch = metadata.producer_epoch
        if expected is not None and expected.epoch != epoch:
            if expected.epoch != metadata.last_producer_epoch:
                text = f"epoch {expected.epoch} of {metadata.transactional_id!r}, which is at {epoch}"
                raise KafkaError(ErrorCode.PRODUCER_FENCED, text)
            last_epoch = metadata.last_producer_epoch
            return self._begin(metadata, metadata.producer_id, epoch, last_epoch, timeout_ms, now)
        last_epoch = NO_PRODUCER_EPOCH if expected is None else epoch
        if metadata.is_epoch_exhausted:
            producer_id = _needed(new_producer_id)
            return self._begin(metadata, producer_id, 0, last_epoch, timeout_ms, now)
        return self._begin(metadata, metadata.producer_id, epoch + 1, last_epoch, timeout_ms, now)

    def _begin(
        self,
        metadata: TransactionMetadata,
        producer_id: ProducerId,
        epoch: int,
        last_epoch: int,
        timeout_ms: int,
        now: Moment,
    ) -> Outcome[ProducerIdAndEpoch]:
        initialized = metadata.initialized(
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            now_wall_ms=now.wall_ms,
        )
        record = TransactionRecord(metadata.transactional_id, initialized)
        return Outcome(ProducerIdAndEpoch(producer_id, epoch), Writes((record,)))


def _needed(producer_id: ProducerId | None) -> ProducerId:
    if producer_id is None:
        raise ProducerIdNeeded
    return producer_id


def _is_known(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether the producer has the present id, or the one before it in its last epoch."""
    if expected.producer_id == metadata.producer_id:
        return True
    return expected.producer_id == metadata.previous_producer_id and is_exhausted(expected.epoch)
