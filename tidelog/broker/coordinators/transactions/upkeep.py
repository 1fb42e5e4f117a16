"""What ends by itself: transactions whose time is over, and transactional ids that nobody uses.

Each look goes through all ids of the partition, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NOTHING, Writes
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.broker.coordinators.transactions.registry import TransactionRegistry
from tidelog.broker.coordinators.transactions.states import AT_REST, TransactionState

logger = logging.getLogger(__name__)

TIMEOUT_OF_TWO_PHASE_COMMIT: Final = 2**31 - 1
"""Such a transaction is ended by whoever coordinates it from outside (KIP-939)."""


class Upkeep:
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

    def aborts_of_timed_out(self, now: Moment) -> list[TransactionRecord]:
        """Return the records that abort transactions that took too long, and fence their producers."""
        records = []
        for entry in self._registry:
            metadata = entry.committed
            if metadata is None or entry.is_pending or not _is_over(metadata, now.wall_ms):
                continue
            logger.info("the transaction of %r is aborted: its time is over", metadata.transactional_id)
            aborted = metadata.fenced().ended(
                TransactionState.PREPARE_ABORT, self._transaction_version(), now.wall_ms
            )
            records.append(TransactionRecord(metadata.transactional_id, aborted))
        return records

    def expire(self, now: Moment) -> Writes[TransactionRecord]:
        """Forget the ids that have not been used for `transactional.id.expiration.ms`."""
        oldest_ms = now.wall_ms - self._config.transactional_id_expiration_ms
        records = tuple(
            TransactionRecord(entry.committed.transactional_id, None)
            for entry in self._registry
            if entry.committed is not None
            and not entry.is_pending
            and entry.committed.state in AT_REST
            and entry.committed.last_update_wall_ms <= oldest_ms
        )
        return Writes(records, may_split=True) if records else NOTHING


def _is_over(metadata: TransactionMetadata, now_wall_ms: int) -> bool:
    if metadata.state is not TransactionState.ONGOING or metadata.timeout_ms == TIMEOUT_OF_TWO_PHASE_COMMIT:
        return False
    return metadata.start_wall_ms + metadata.timeout_ms < now_wall_ms
