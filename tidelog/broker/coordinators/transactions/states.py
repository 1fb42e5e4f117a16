"""The states of a transactional id and the transitions between them.

    Empty, CompleteCommit, CompleteAbort -> Ongoing        the first partition or group is added
    Ongoing -> Ongoing                                     more are added
    Ongoing -> PrepareCommit, PrepareAbort                 EndTxn
    Ongoing -> PrepareEpochFence -> PrepareAbort           in one step: a new producer, or the timeout
    Empty, CompleteCommit, CompleteAbort -> PrepareAbort   abort without a transaction, from version 2 on
    PrepareCommit -> CompleteCommit                        every partition has its marker
    PrepareAbort -> CompleteAbort
    Empty, CompleteCommit, CompleteAbort -> Empty          InitProducerId
    Empty, CompleteCommit, CompleteAbort -> Dead           the id has expired

PrepareEpochFence and Dead are never written to the log.

Source: TransactionState of Apache Kafka 4.3. The names are those in DescribeTransactions, the numbers those
of TransactionLogValue.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class TransactionState(Enum):
    """The state of a transactional id; the value is its name in admin responses."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @property
    def status(self) -> int:
        """The number of the state in the log."""
        return _STATUS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the transaction is committed or aborted and its markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


_STATUS: Final = {state: number for number, state in enumerate(TransactionState)}
STATE_OF_STATUS: Final[Mapping[int, TransactionState]] = MappingProxyType(
    {number: state for state, number in _STATUS.items()}
)

STATES_WITHOUT_TRANSACTION: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""The states without a transaction; an id in one of them may expire."""

_NEXT_WITHOUT_TRANSACTION: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,
        TransactionState.DEAD,
    }
)

NEXT_STATES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = MappingProxyType(
    {
        **dict.fromkeys(STATES_WITHOUT_TRANSACTION, _NEXT_WITHOUT_TRANSACTION),
        TransactionState.ONGOING: frozenset(
            {
                TransactionState.ONGOING,
                TransactionState.PREPARE_COMMIT,
                TransactionState.PREPARE_ABORT,
                TransactionState.PREPARE_EPOCH_FENCE,
            }
        ),
        TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT}),
        TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
        TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
        TransactionState.DEAD: frozenset(),
    }
)
"""The allowed next states of every state."""
