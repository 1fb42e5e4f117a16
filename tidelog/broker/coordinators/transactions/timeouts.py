"""Transactions that time out, and transactional ids that expire.

Each check visits all ids of the partition, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Writes
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.broker.coordinators.transactions.registry import TransactionRegistry
from tidelog.broker.coordinators.transactions.states import STATES_WITHOUT_TRANSACTION, TransactionState

logger = logging.getLogger(__name__)

TIMEOUT_OF_TWO_PHASE_COMMIT: Final = 2**31 - 1
"""A transaction with this timeout is ended by an external coordinator (KIP-939)."""


class TransactionTimeouts:
    """Finds timed-out transactions and expired ids; `transaction_version` returns that feature's level."""

    def __init__(
        self,
        registry: TransactionRegistry,
        config: TransactionConfig,
        transaction_version: Callable[[], int],
    ) -> None:
        self._registry = registry
        self._config = config
        self._transaction_version = transaction_version

    def aborts_of_timed_out(self, now: Moment) -> list[TransactionRecord]:
        """Return the records that abort timed-out transactions and fence their producers."""
        records = []
        for entry in self._registry:
            metadata = entry.committed_metadata
            if metadata is None or entry.is_pending or not _has_timed_out(metadata, now.wall_ms):
                continue
            logger.info("Aborting the transaction of %r, which has timed out", metadata.transactional_id)
            aborted = metadata.prepare_fenced_abort(self._transaction_version(), now.wall_ms)
            records.append(TransactionRecord(metadata.transactional_id, aborted))
        return records

    def expire(self, now: Moment) -> Writes[TransactionRecord]:
        """Return the tombstones of the ids that have not been used for `transactional.id.expiration.ms`."""
        oldest_ms = now.wall_ms - self._config.transactional_id_expiration_ms
        records = tuple(
            TransactionRecord(entry.committed_metadata.transactional_id, None)
            for entry in self._registry
            if entry.committed_metadata is not None
            and not entry.is_pending
            and entry.committed_metadata.state in STATES_WITHOUT_TRANSACTION
            and entry.committed_metadata.last_update_wall_ms <= oldest_ms
        )
        return Writes(records, may_split=True) if records else NO_WRITES


def _has_timed_out(metadata: TransactionMetadata, now_wall_ms: int) -> bool:
    if metadata.state is not TransactionState.ONGOING or metadata.timeout_ms == TIMEOUT_OF_TWO_PHASE_COMMIT:
        return False
    return metadata.start_wall_ms + metadata.timeout_ms < now_wall_ms
