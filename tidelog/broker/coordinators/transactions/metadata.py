"""The metadata of one transactional id as a value, and every transition from one value to the next.

| transition | state after | producer id and epoch after |
|------------|-------------|-----------------------------|
| `prepare_producer_epoch` | Empty | the same id, epoch + 1; or a new id, epoch 0 |
| `prepare_add_partitions` | Ongoing | the same |
| `prepare_fence` | PrepareEpochFence | epoch + 1, which is not sent to any client |
| `prepare_end` | PrepareCommit, PrepareAbort | the same; from transaction.version 2 on epoch + 1 |
| `prepare_complete` | CompleteCommit, CompleteAbort | the same, or `next_producer_id` and epoch 0 |

The epoch 32767 is never given to a client, so that every producer can be fenced.

Source: KIP-98, KIP-360, KIP-890; TransactionMetadata of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.transactions.states import NEXT_STATES, TransactionState
from tidelog.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerId, TopicPartition

NO_TIMESTAMP: Final = -1
EPOCH_MAX: Final = 2**15 - 1

TRANSACTION_VERSION_2: Final = 2
"""The level of transaction.version from which every transaction has an epoch of its own (KIP-890)."""


def is_exhausted(epoch: int) -> bool:
    """Return whether a client that has `epoch` cannot be given the next one."""
    return epoch >= EPOCH_MAX - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One transactional id between two transitions. Timestamps are wall time, -1 if there is none.

    `previous_producer_id` is the id before the last transition. `last_producer_epoch` is the epoch whose
    retries are accepted. `next_producer_id` is the id that the producer gets when the transaction is
    complete. These three are -1 if there is none. `client_transaction_version` is the transaction.version
    with which the transaction ends.
    """

    transactional_id: str
    producer_id: ProducerId
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_wall_ms: int = NO_TIMESTAMP
    last_update_wall_ms: int
    client_transaction_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer can only continue with a new id."""
        return is_exhausted(self.producer_epoch)

    @property
    def bumps_epoch(self) -> bool:
        """Whether the end of this transaction increments the epoch."""
        return self.client_transaction_version >= TRANSACTION_VERSION_2

    def prepare_producer_epoch(
        self, *, producer_id: ProducerId, epoch: int, last_epoch: int, timeout_ms: int, now_wall_ms: int
    ) -> TransactionMetadata:
        """Return the metadata of a producer that starts, or continues after an error."""
        return self._to(
            TransactionState.EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_wall_ms=NO_TIMESTAMP,
            last_update_wall_ms=now_wall_ms,
        )

    def prepare_add_partitions(
        self, added: Iterable[TopicPartition], client_transaction_version: int, now_wall_ms: int
    ) -> TransactionMetadata:
        """Return the metadata with added partitions; the first partitions start a transaction."""
        is_ongoing = self.state is TransactionState.ONGOING
        return self._to(
            TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            start_wall_ms=self.start_wall_ms if is_ongoing else now_wall_ms,
            last_update_wall_ms=now_wall_ms,
            client_transaction_version=client_transaction_version,
        )

    def prepare_fence(self) -> TransactionMetadata:
        """Return the metadata with the next epoch, which fences the producer of this transaction."""
        return self._to(
            TransactionState.PREPARE_EPOCH_FENCE,
            producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def prepare_end(
        self,
        state: TransactionState,
        client_transaction_version: int,
        now_wall_ms: int,
        next_producer_id: ProducerId = NO_PRODUCER_ID,
    ) -> TransactionMetadata:
        """Return the metadata of a transaction that is committed or aborted (PrepareCommit or PrepareAbort).

        A transaction that was fenced in its second-to-last epoch ends in the last epoch, which no producer
        has.
        """
        bumps_epoch = client_transaction_version >= TRANSACTION_VERSION_2
        epoch = min(self.producer_epoch + 1, EPOCH_MAX) if bumps_epoch else self.producer_epoch
        has_begun = self.state in (TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE)
        return self._to(
            state,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=self.producer_epoch if bumps_epoch else self.last_producer_epoch,
            start_wall_ms=self.start_wall_ms if has_begun else now_wall_ms,
            last_update_wall_ms=now_wall_ms,
            client_transaction_version=client_transaction_version,
        )

    def prepare_fenced_abort(self, transaction_version: int, now_wall_ms: int) -> TransactionMetadata:
        """Return the metadata of a transaction that this node aborts, and whose producer is fenced."""
        return self.prepare_fence().prepare_end(
            TransactionState.PREPARE_ABORT, transaction_version, now_wall_ms
        )

    def prepare_complete(self, now_wall_ms: int) -> TransactionMetadata:
        """Return the metadata of a transaction whose partitions all have their marker."""
        has_new_producer_id = self.bumps_epoch and self.next_producer_id != NO_PRODUCER_ID
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        return self._to(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            producer_id=self.next_producer_id if has_new_producer_id else self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=0 if has_new_producer_id else self.producer_epoch,
            partitions=frozenset(),
            last_update_wall_ms=now_wall_ms,
        )

    def _to(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        assert state in NEXT_STATES[self.state], f"{self.transactional_id}: {self.state} to {state}"
        changes.setdefault("previous_producer_id", self.producer_id)
        return replace(self, state=state, **changes)
