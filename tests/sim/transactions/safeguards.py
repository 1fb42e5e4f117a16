"""The rules of the transaction coordinator that tests remove, to show that each is needed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import Enum
from typing import Final

from tests.sim.ablation import Ablation, replace_rules
from tidelog.broker.coordinators.transactions.coordinator import TransactionCoordinator
from tidelog.broker.coordinators.transactions.end_transaction import EndTransactionCommand
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.protocol.ids import Offset


class Safeguard(Enum):
    """The rules; each value states the rule."""

    CURRENT_EPOCH_TO_END = "a repeated EndTxn with the previous epoch does not end the next transaction"
    PREPARED_IS_COMPLETED = "a new coordinator writes the markers of prepared transactions"
    MARKERS_AFTER_COMMIT = "no marker is written before the decision is on every in-sync replica"


def ablate(safeguard: Safeguard) -> AbstractContextManager[None]:
    """Remove one rule for the length of the block."""
    return replace_rules([_ABLATIONS[safeguard]])


_replay = TransactionCoordinator.replay


def _replay_and_advance(
    coordinator: TransactionCoordinator, record: TransactionRecord, record_offset: Offset
) -> None:
    _replay(coordinator, record, record_offset)
    if coordinator._is_loaded:
        coordinator.advance(record_offset + 1)


_ABLATIONS: Final = {
    Safeguard.CURRENT_EPOCH_TO_END: Ablation(
        EndTransactionCommand, "_allows_previous_epoch", lambda command, metadata: True
    ),
    Safeguard.PREPARED_IS_COMPLETED: Ablation(
        TransactionCoordinator, "_write_markers_of_prepared", lambda coordinator: None
    ),
    Safeguard.MARKERS_AFTER_COMMIT: Ablation(TransactionCoordinator, "replay", _replay_and_advance),
}
