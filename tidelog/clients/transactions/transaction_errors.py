"""The reaction of a transactional producer to an error: retry, abort the transaction, or fail.

Pure. Each transactional API gives some error codes a meaning of its own; the other codes have one common
meaning.

Source: KIP-1050 (the classes of errors), KIP-588 (PRODUCER_FENCED), KIP-890 (TRANSACTION_ABORTABLE) and the
producer of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

from tidelog.clients.transport.failures import known_code
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.registry import ApiKey


class AbortableTransactionError(KafkaError):
    """The transaction cannot be committed; abort it, then begin another one with the same producer."""


class FatalTransactionError(KafkaError):
    """The producer cannot continue, for example because it is fenced; close it and create a new one."""


class ErrorAction(Enum):
    """The reaction of the producer to a response with an error code."""

    PROCEED = auto()
    """There is no error."""
    RETRY = auto()
    """Send the same request again after backoff."""
    FIND_COORDINATOR = auto()
    """Look up the coordinator, then send the same request again."""
    ABORT = auto()
    """The transaction has to be aborted."""
    ABORT_AND_BUMP = auto()
    """The transaction has to be aborted, and the producer's epoch bumped."""
    UNINITIALIZE = auto()
    """There is no producer id; the application may call init_transactions again."""
    FAIL = auto()
    """The producer can only be closed."""


_COMMON: Final = {
    ErrorCode.NONE: ErrorAction.PROCEED,
    ErrorCode.NOT_COORDINATOR: ErrorAction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorAction.FIND_COORDINATOR,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorAction.ABORT,
}
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
_BY_API: Final[dict[int, dict[ErrorCode, ErrorAction]]] = {
    ApiKey.FIND_COORDINATOR: {
        ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorAction.ABORT,
    },
    ApiKey.INIT_PRODUCER_ID: {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorAction.UNINITIALIZE,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorAction.UNINITIALIZE,
        ErrorCode.TRANSACTION_ABORTABLE: ErrorAction.UNINITIALIZE,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        ErrorCode.UNKNOWN_PRODUCER_ID: ErrorAction.ABORT_AND_BUMP,
        ErrorCode.INVALID_TXN_STATE: ErrorAction.FAIL,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorAction.FAIL,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorAction.FAIL,
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {
        ErrorCode.UNKNOWN_PRODUCER_ID: ErrorAction.ABORT_AND_BUMP,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorAction.ABORT,
    },
    ApiKey.TXN_OFFSET_COMMIT: {
        ErrorCode.REQUEST_TIMED_OUT: ErrorAction.FIND_COORDINATOR,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorAction.ABORT,
        ErrorCode.FENCED_INSTANCE_ID: ErrorAction.ABORT,
        ErrorCode.UNKNOWN_MEMBER_ID: ErrorAction.ABORT,
        ErrorCode.ILLEGAL_GENERATION: ErrorAction.ABORT,
    },
    ApiKey.END_TXN: {
        ErrorCode.UNKNOWN_PRODUCER_ID: ErrorAction.ABORT_AND_BUMP,
    },
    ApiKey.PRODUCE: {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorAction.FAIL,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorAction.FAIL,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorAction.FAIL,
        ErrorCode.UNSUPPORTED_VERSION: ErrorAction.FAIL,
        ErrorCode.PRODUCER_FENCED: ErrorAction.FAIL,
    },
}
_DEFAULTS: Final = {ApiKey.ADD_PARTITIONS_TO_TXN: ErrorAction.ABORT}
"""The action after a code that is neither listed nor retriable, where it is not FAIL."""
_SEVERITY: Final = (
    ErrorAction.PROCEED,
    ErrorAction.RETRY,
    ErrorAction.FIND_COORDINATOR,
    ErrorAction.ABORT,
    ErrorAction.ABORT_AND_BUMP,
    ErrorAction.FAIL,
)


def action_for(api_key: int, code: ErrorCode) -> ErrorAction:
    """Return the action after `code` in a response of `api_key`, a transactional API or FindCoordinator."""
    if code in _FENCED:
        return ErrorAction.FAIL
    found = _BY_API[api_key].get(code) or _COMMON.get(code)
    if found is not None:
        return found
    return ErrorAction.RETRY if code.retriable else _DEFAULTS.get(ApiKey(api_key), ErrorAction.FAIL)


def action_for_batch(code: ErrorCode) -> ErrorAction:
    """Return the action after a batch of the transaction has failed for good with `code`.

    INVALID_PRODUCER_EPOCH is abortable here (KIP-588): the abort shows whether the producer is fenced.
    """
    return _BY_API[ApiKey.PRODUCE].get(code, ErrorAction.ABORT_AND_BUMP)


def most_severe_error(
    api_key: int, requested: Iterable[TopicPartition], codes: Mapping[TopicPartition, int]
) -> tuple[TopicPartition, ErrorCode] | None:
    """Return the partition and the error that decide about the whole response; None if there is no error.

    A partition that the response does not list has failed. OPERATION_NOT_ATTEMPTED only means that another
    partition has failed.
    """

    def severity(code: ErrorCode) -> int:
        action = action_for(api_key, code)
        return 2 * _SEVERITY.index(action) if code is not ErrorCode.OPERATION_NOT_ATTEMPTED else 1

    known = [(tp, known_code(codes.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR))) for tp in requested]
    worst = max(known, key=lambda entry: severity(entry[1]), default=None)
    return None if worst is None or worst[1] is ErrorCode.NONE else worst


def application_code(code: ErrorCode) -> ErrorCode:
    """Return the code that the application gets: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH."""
    return ErrorCode.PRODUCER_FENCED if code in _FENCED else code
