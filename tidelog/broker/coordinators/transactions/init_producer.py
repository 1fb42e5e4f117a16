"""InitProducerId of a transactional id: a producer starts, or continues after an error (KIP-360).

| state | request without an epoch | current id and epoch | previous epoch | any other |
|-------|------------------------|-------------------------------|-----------------------|----------------|
| no metadata | new id, epoch 0 | same | same | same |
| Empty, Complete... | epoch + 1 | epoch + 1 | the current epoch again | PRODUCER_FENCED |
| the same, epochs exhausted | new id, epoch 0 | new id, epoch 0 | the current epoch again | PRODUCER_FENCED |
| Ongoing | abort, CONCURRENT_TRANSACTIONS | same | same | same, but PRODUCER_FENCED for another id |
| Prepare... | CONCURRENT_TRANSACTIONS | same | same | same |

"Previous epoch" includes the last epoch of the previous id: the response to it may have been lost.
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
    """The command needs a new producer id: call it again with one."""


class ProducerIdAndEpoch(NamedTuple):
    """The identity of a producer."""

    producer_id: ProducerId = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class InitProducerCommand:
    """Handles InitProducerId. `transaction_version` returns the finalized level of that feature."""

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
        """Return the id and epoch that the producer continues with after the commit.

        A reply without an id means CONCURRENT_TRANSACTIONS: the previous producer's transaction is being
        aborted. Errors: ProducerIdNeeded if `new_producer_id` is None and needed; KafkaError as in the
        table, and INVALID_TRANSACTION_TIMEOUT.
        """
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            text = f"{timeout_ms} ms; allowed are 1 to {self._config.transaction_max_timeout_ms}"
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, text)
        if self._registry.get(transactional_id) is None:
            created = TransactionMetadata(
                transactional_id=transactional_id,
                producer_id=_require_id(new_producer_id),
                timeout_ms=timeout_ms,
                last_update_wall_ms=now.wall_ms,
            )
            return self._initialize(created, created.producer_id, 0, NO_PRODUCER_EPOCH, timeout_ms, now)
        metadata = self._registry.metadata_to_change(transactional_id)
        if expected is not None and not _is_known(metadata, expected):
            text = f"{transactional_id!r} has the producer id {metadata.producer_id}, not {expected}"
            raise KafkaError(ErrorCode.PRODUCER_FENCED, text)
        if metadata.state is TransactionState.ONGOING:
            aborted = metadata.prepare_fenced_abort(self._transaction_version(), now.wall_ms)
            return Outcome(ProducerIdAndEpoch(), Writes((TransactionRecord(transactional_id, aborted),)))
        return self._continue(metadata, expected, timeout_ms, new_producer_id, now)

    def _continue(
        self,
        metadata: TransactionMetadata,
        expected: ProducerIdAndEpoch | None,
        timeout_ms: int,
        new_producer_id: ProducerId | None,
        now: Moment,
    ) -> Outcome[ProducerIdAndEpoch]:
        """Return the reply for an id without an ongoing transaction."""
        epoch = metadata.producer_epoch
        if expected is not None and expected.epoch != epoch:
            if expected.epoch != metadata.last_producer_epoch:
                text = f"the epoch of {metadata.transactional_id!r} is {epoch}, not {expected.epoch}"
                raise KafkaError(ErrorCode.PRODUCER_FENCED, text)
            last_epoch = metadata.last_producer_epoch
            return self._initialize(metadata, metadata.producer_id, epoch, last_epoch, timeout_ms, now)
        last_epoch = NO_PRODUCER_EPOCH if expected is None else epoch
        if metadata.is_epoch_exhausted:
            producer_id = _require_id(new_producer_id)
            return self._initialize(metadata, producer_id, 0, last_epoch, timeout_ms, now)
        return self._initialize(metadata, metadata.producer_id, epoch + 1, last_epoch, timeout_ms, now)

    def _initialize(
        self,
        metadata: TransactionMetadata,
        producer_id: ProducerId,
        epoch: int,
        last_epoch: int,
        timeout_ms: int,
        now: Moment,
    ) -> Outcome[ProducerIdAndEpoch]:
        initialized = metadata.prepare_producer_epoch(
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            now_wall_ms=now.wall_ms,
        )
        record = TransactionRecord(metadata.transactional_id, initialized)
        return Outcome(ProducerIdAndEpoch(producer_id, epoch), Writes((record,)))


def _require_id(producer_id: ProducerId | None) -> ProducerId:
    """Return the new producer id. Raise ProducerIdNeeded if there is none."""
    if producer_id is None:
        raise ProducerIdNeeded
    return producer_id


def _is_known(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Return whether the producer has the current id, or the previous id in its last epoch."""
    if expected.producer_id == metadata.producer_id:
        return True
    return expected.producer_id == metadata.previous_producer_id and is_exhausted(expected.epoch)
