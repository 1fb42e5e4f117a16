"""Metadata of transactional ids: one without and one with values in all fields."""

from __future__ import annotations

from tests.support.transactions.coordinator import ID, A, B
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.states import TransactionState

WHOLE = TransactionMetadata(
    transactional_id=ID,
    producer_id=7,
    previous_producer_id=6,
    next_producer_id=8,
    producer_epoch=32767,
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({A, B}),
    start_wall_ms=1_700_000_000_000,
    last_update_wall_ms=1_700_000_000_500,
    client_transaction_version=2,
)
EMPTY = TransactionMetadata(
    transactional_id=ID, producer_id=7, producer_epoch=0, timeout_ms=60_000, last_update_wall_ms=5
)
