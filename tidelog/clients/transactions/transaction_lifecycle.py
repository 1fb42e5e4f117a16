"""The states of a transactional producer, and what the application may do in each.

Pure. Each state may also change to FATAL_ERROR:

    UNINITIALIZED    has no producer id              -> INITIALIZING
    INITIALIZING     needs InitProducerId            -> READY, UNINITIALIZED
    READY            no transaction is open          -> IN_TRANSACTION
    IN_TRANSACTION   accepts records and offsets     -> COMMITTING, ABORTING, ABORTABLE_ERROR
    COMMITTING       sends all, then EndTxn          -> READY, INITIALIZING, ABORTABLE_ERROR
    ABORTING         waits for responses, then EndTxn -> READY, INITIALIZING
    ABORTABLE_ERROR  can only be aborted             -> ABORTING
    FATAL_ERROR      the producer can only be closed

An operation continues when the application stops waiting for it. No other operation can begin until the
application has called the same one again and has received its result: a cancelled commit may have succeeded.

Source: KIP-98, KIP-360, KIP-1050; TransactionManager of Kafka's clients.
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import Final

from tidelog.clients.transactions.transaction_errors import (
    AbortableTransactionError,
    FatalTransactionError,
    application_code,
)
from tidelog.clients.transport.failures import copy_of
from tidelog.protocol.errors import ErrorCode, KafkaError

_log = logging.getLogger("tidelog.clients.transactions")


class TransactionState(Enum):
    """The state of the producer; the transitions are at the beginning of this file."""

    UNINITIALIZED = auto()
    INITIALIZING = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


_S = TransactionState
TRANSITIONS: Final = {
    _S.UNINITIALIZED: {_S.INITIALIZING, _S.FATAL_ERROR},
    _S.INITIALIZING: {_S.READY, _S.UNINITIALIZED, _S.FATAL_ERROR},
    _S.READY: {_S.IN_TRANSACTION, _S.FATAL_ERROR},
    _S.IN_TRANSACTION: {_S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR},
    _S.COMMITTING: {_S.READY, _S.INITIALIZING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR},
    _S.ABORTING: {_S.READY, _S.INITIALIZING, _S.FATAL_ERROR},
    _S.ABORTABLE_ERROR: {_S.ABORTING, _S.FATAL_ERROR},
    _S.FATAL_ERROR: set(),
}


_ADVICE: Final = {
    (_S.READY, _S.UNINITIALIZED): "; call init_transactions first",
    (_S.READY, _S.IN_TRANSACTION): "; commit or abort the open transaction first",
    (_S.IN_TRANSACTION, _S.UNINITIALIZED): "; call init_transactions, then begin_transaction",
    (_S.IN_TRANSACTION, _S.READY): "; call begin_transaction first",
}
"""What the application has to do, by the required state and the current state."""


class Operation(Enum):
    """The operations whose result the application has to receive; the values are its method names."""

    INIT = "init_transactions"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"


class PendingOperation:
    """An operation that has begun; once it `has_ended`, `error` is None if it succeeded."""

    __slots__ = ("error", "has_ended", "has_succeeded", "operation")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.has_succeeded = False
        self.has_ended = False
        self.error: KafkaError | None = None

    def end(self, error: KafkaError | None) -> None:
        """Record the first end; an error after the success belongs to the next operation."""
        if not self.has_ended:
            self.has_ended = True
            self.error = None if self.has_succeeded else error


class TransactionLifecycle:
    """The state, the error that led to it, and the operation in progress.

    `pending`: the operation whose result the application has not received. Each keeps its own result, because
    another task may begin the next operation before this result is received. `serial` counts transactions.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.error: KafkaError | None = None
        self.pending: PendingOperation | None = None
        self.serial = 0

    @property
    def pending_operation(self) -> Operation | None:
        """The kind of the operation whose result the application has not received."""
        return None if self.pending is None else self.pending.operation

    @property
    def is_ending(self) -> bool:
        """Whether buffered records have to be sent or dropped without delay."""
        return self.state in (TransactionState.COMMITTING, TransactionState.ABORTING)

    @property
    def is_rolling_back(self) -> bool:
        """Whether the records of the transaction will not be committed."""
        return self.state in (TransactionState.ABORTABLE_ERROR, TransactionState.ABORTING)

    @property
    def is_idle(self) -> bool:
        """Whether no operation is in progress."""
        return not self.is_ending and self.state is not TransactionState.INITIALIZING

    @property
    def is_open(self) -> bool:
        """Whether records may be added to a transaction; read for every record."""
        return self.state is TransactionState.IN_TRANSACTION

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction that can be aborted."""
        return self.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR)

    @property
    def is_fatal(self) -> bool:
        """Whether the producer can only be closed."""
        return self.state is TransactionState.FATAL_ERROR

    def take_result(self, pending: PendingOperation | None = None) -> None:
        """Deliver the result of an operation (None: of the latest) to the application; raise its error."""
        ended = pending or self.pending
        assert ended is not None and ended.has_ended
        if ended is self.pending:
            self.pending = None
        if ended.error is not None:
            raise copy_of(ended.error)

    def require(self, state: TransactionState, operation: str) -> None:
        """Raise KafkaError unless the producer is in `state` and may begin `operation`.

        Errors: AbortableTransactionError and FatalTransactionError after such an error, otherwise
        KafkaError(INVALID_TXN_STATE).
        """
        if self.error is not None and (self.is_fatal or self.state is TransactionState.ABORTABLE_ERROR):
            raise copy_of(self.error)
        if self.pending_operation is not None:
            name = self.pending_operation.value
            text = f"{operation}: the result of {name} is pending; call {name} again first"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)
        if self.state is not state:
            text = f"{operation} needs a producer in state {state.name}; this one is in {self.state.name}"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, text + _ADVICE.get((state, self.state), ""))

    def require_open(self, serial: int | None = None) -> int:
        """Return the serial of the open transaction.

        Raise KafkaError if none is open, or if `serial` is given and another transaction is open.
        """
        self.require(TransactionState.IN_TRANSACTION, "send")
        if serial is not None and serial != self.serial:
            text = "send: the transaction ended while the record waited; the record is not sent"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)
        return self.serial

    # --- transitions ----------------------------------------------------------------------

    def begin(self, operation: Operation, target: TransactionState) -> None:
        """Change to `target`, the state in which `operation` is in progress."""
        self._transition(target)
        self.pending = PendingOperation(operation)

    def open_transaction(self) -> None:
        """Change to IN_TRANSACTION with the next serial."""
        self.serial += 1
        self._transition(TransactionState.IN_TRANSACTION)

    def succeed(self, target: TransactionState) -> None:
        """End the operation in progress successfully and change to `target`."""
        assert self.pending is not None
        self.pending.has_succeeded = True
        self._transition(target)

    def require_abort(self, code: ErrorCode, text: str) -> None:
        """Change to ABORTABLE_ERROR: the transaction cannot be committed any more."""
        if self.is_rolling_back:
            _log.debug("%s: error while the transaction is rolled back: %s", self.transactional_id, text)
            return
        self._transition(TransactionState.ABORTABLE_ERROR, AbortableTransactionError(code, text))

    def fail_initialization(self, code: ErrorCode, text: str) -> None:
        """Change to UNINITIALIZED: there is no producer id, and the application may try again."""
        self._transition(TransactionState.UNINITIALIZED, KafkaError(code, text))

    def fail(self, code: ErrorCode, text: str) -> None:
        """Change to FATAL_ERROR; the first fatal error stays."""
        if not self.is_fatal:
            error = FatalTransactionError(application_code(code), text)
            self._transition(TransactionState.FATAL_ERROR, error)

    def _transition(self, target: TransactionState, error: KafkaError | None = None) -> None:
        assert target in TRANSITIONS[self.state], f"{self.state.name} -> {target.name}"
        if error is not None:
            _log.info("%s: %s -> %s: %s", self.transactional_id, self.state.name, target.name, error)
        self.state = target
        self.error = error
        if self.pending is not None and self.is_idle:
            self.pending.end(error)
