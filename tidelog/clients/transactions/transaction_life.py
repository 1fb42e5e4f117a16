"""The life of a transactional producer: its states, and what the application may do in each.

Pure. The states and the moves between them; each of them may also end in FATAL_ERROR:

    UNINITIALIZED    no producer id yet              -> INITIALIZING
    INITIALIZING     InitProducerId is wanted        -> READY, UNINITIALIZED
    READY            no transaction                  -> IN_TRANSACTION
    IN_TRANSACTION   records and offsets are taken   -> COMMITTING, ABORTING, ABORTABLE_ERROR
    COMMITTING       all is sent, then EndTxn        -> READY, INITIALIZING, ABORTABLE_ERROR
    ABORTING         what was sent ends, then EndTxn -> READY, INITIALIZING
    ABORTABLE_ERROR  it can only be aborted          -> ABORTING
    FATAL_ERROR      the producer can only be closed

An operation that the application has begun and no longer awaits goes on. Until the same is called again and
its end heard, nothing else can be begun: a commit that was cancelled may have been made.

Source: KIP-98, KIP-360, KIP-1050; TransactionManager of Kafka's clients.
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import Final

from tidelog.clients.transactions.transaction_errors import (
    AbortableTransactionError,
    FatalTransactionError,
    plain_code,
)
from tidelog.protocol.errors import ErrorCode, KafkaError

_log = logging.getLogger("tidelog.clients.transactions")


class TransactionState(Enum):
    """Where the producer is; see the head of this file."""

    UNINITIALIZED = auto()
    INITIALIZING = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


_S = TransactionState
MOVES: Final = {
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
    (_S.READY, _S.IN_TRANSACTION): "; commit or abort what is open first",
    (_S.IN_TRANSACTION, _S.UNINITIALIZED): "; call init_transactions, then begin_transaction",
    (_S.IN_TRANSACTION, _S.READY): "; call begin_transaction first",
}
"""What to do about a state that is needed and another that is."""


class Operation(Enum):
    """What the application begins and has to hear the end of."""

    INIT = "init_transactions"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"


class Begun:
    """An operation that was begun; once it `has_ended`, `error` is why it failed, None when it was done."""

    __slots__ = ("error", "has_ended", "has_succeeded", "operation")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.has_succeeded = False
        self.has_ended = False
        self.error: KafkaError | None = None

    def end(self, error: KafkaError | None) -> None:
        """Note the first end; what goes wrong once it has succeeded is the next operation's trouble."""
        if not self.has_ended:
            self.has_ended = True
            self.error = None if self.has_succeeded else error


class TransactionLife:
    """State, the error that led to it, and the operation under way.

    `begun`: the operation whose end the application has not heard. Each keeps its own end, as another task
    may have begun the next one before this one is heard. `serial` counts transactions.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.error: KafkaError | None = None
        self.begun: Begun | None = None
        self.serial = 0

    @property
    def unclaimed(self) -> Operation | None:
        """The operation whose end the application has not heard."""
        return None if self.begun is None else self.begun.operation

    @property
    def is_ending(self) -> bool:
        """Whether what is buffered has to go out, or be dropped, at once."""
        return self.state in (TransactionState.COMMITTING, TransactionState.ABORTING)

    @property
    def is_rolling_back(self) -> bool:
        """Whether the records of the transaction will not be committed."""
        return self.state in (TransactionState.ABORTABLE_ERROR, TransactionState.ABORTING)

    @property
    def is_settled(self) -> bool:
        """Whether the operation that was begun last has come to its end."""
        return not self.is_ending and self.state is not TransactionState.INITIALIZING

    @property
    def is_open(self) -> bool:
        """Whether records may be added to a transaction; asked for every record."""
        return self.state is TransactionState.IN_TRANSACTION

    @property
    def can_abort(self) -> bool:
        """Whether there is something to abort."""
        return self.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR)

    @property
    def is_fatal(self) -> bool:
        """Whether the producer can only be closed."""
        return self.state is TransactionState.FATAL_ERROR

    def claim(self, begun: Begun | None = None) -> None:
        """Hear the end of an operation (None: of the one begun last); raises why it failed."""
        heard = begun or self.begun
        assert heard is not None and heard.has_ended
        if heard is self.begun:
            self.begun = None
        if heard.error is not None:
            raise _again(heard.error)

    def require(self, state: TransactionState, what: str) -> None:
        """KafkaError unless the producer is in `state` and free to do `what`.

        Errors: AbortableTransactionError and FatalTransactionError after such an error, else
        KafkaError(INVALID_TXN_STATE).
        """
        if self.error is not None and (self.is_fatal or self.state is TransactionState.ABORTABLE_ERROR):
            raise _again(self.error)
        if self.unclaimed is not None:
            text = f"{what}: the end of {self.unclaimed.value} was not awaited; call it again first"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)
        if self.state is not state:
            text = f"{what} is for a producer that is {state.name}; this one is {self.state.name}"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, text + _ADVICE.get((state, self.state), ""))

    def require_open(self, serial: int | None = None) -> int:
        """The serial of the transaction that takes records; KafkaError when none does, or not that one."""
        self.require(TransactionState.IN_TRANSACTION, "send")
        if serial is not None and serial != self.serial:
            text = "send waited until its transaction had ended; the record is in no other"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)
        return self.serial

    def give_up(self, text: str) -> None:
        """Nobody drives the transactions any more."""
        self._fatal(ErrorCode.UNKNOWN_SERVER_ERROR, text)

    # --- moves ----------------------------------------------------------------------------

    def _begin(self, operation: Operation, target: TransactionState) -> None:
        self._move(target)
        self.begun = Begun(operation)

    def _succeed(self, target: TransactionState) -> None:
        assert self.begun is not None
        self.begun.has_succeeded = True
        self._move(target)

    def _abortable(self, code: ErrorCode, text: str) -> None:
        """The transaction cannot be committed any more."""
        if self.is_rolling_back:
            _log.debug("%s, while it is rolled back: %s", self.transactional_id, text)
            return
        self._move(TransactionState.ABORTABLE_ERROR, AbortableTransactionError(code, text))

    def _uninitialized(self, code: ErrorCode, text: str) -> None:
        """There is no producer id, and the application may ask again."""
        self._move(TransactionState.UNINITIALIZED, KafkaError(code, text))

    def _fatal(self, code: ErrorCode, text: str) -> None:
        """Nothing can be done with this producer any more."""
        if not self.is_fatal:
            self._move(TransactionState.FATAL_ERROR, FatalTransactionError(plain_code(code), text))

    def _move(self, target: TransactionState, error: KafkaError | None = None) -> None:
        """Change the state, legally."""
        assert target in MOVES[self.state], f"{self.state.name} -> {target.name}"
        if error is not None:
            _log.info("%s: %s -> %s: %s", self.transactional_id, self.state.name, target.name, error)
        self.state = target
        self.error = error
        if self.begun is not None and self.is_settled:
            self.begun.end(error)


def _again(error: KafkaError) -> KafkaError:
    """A new exception for each who hears of an error, so that tracebacks do not pile up."""
    return type(error)(error.code, str(error))
