"""What an error means to a transaction: try again, abort, or give the producer up.

Pure. Each API of transactions has codes of its own meaning; all others are common to them.

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
    """The producer cannot go on, fenced for instance; close it. A new one may take its place."""


class Verdict(Enum):
    """What follows from an error code."""

    DONE = auto()
    """It worked."""
    RETRY = auto()
    """Send the same again after backoff."""
    FIND_COORDINATOR = auto()
    """Look the coordinator up, then send the same again."""
    ABORTABLE = auto()
    """The transaction has to be aborted."""
    BUMP = auto()
    """The transaction has to be aborted and the producer's epoch raised."""
    UNINITIALIZED = auto()
    """There is no producer id; the application may ask again."""
    FATAL = auto()
    """Nothing can be done with this producer."""


_COMMON: Final = {
    ErrorCode.NONE: Verdict.DONE,
    ErrorCode.NOT_COORDINATOR: Verdict.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.FIND_COORDINATOR,
    ErrorCode.TRANSACTION_ABORTABLE: Verdict.ABORTABLE,
}
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
_OF_API: Final[dict[int, dict[ErrorCode, Verdict]]] = {
    ApiKey.FIND_COORDINATOR: {
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORTABLE,
    },
    ApiKey.INIT_PRODUCER_ID: {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.UNINITIALIZED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Verdict.UNINITIALIZED,
        ErrorCode.TRANSACTION_ABORTABLE: Verdict.UNINITIALIZED,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.BUMP,
        ErrorCode.INVALID_TXN_STATE: Verdict.FATAL,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.FATAL,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.FATAL,
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {
        ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.BUMP,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORTABLE,
    },
    ApiKey.TXN_OFFSET_COMMIT: {
        ErrorCode.REQUEST_TIMED_OUT: Verdict.FIND_COORDINATOR,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORTABLE,
        ErrorCode.FENCED_INSTANCE_ID: Verdict.ABORTABLE,
        ErrorCode.UNKNOWN_MEMBER_ID: Verdict.ABORTABLE,
        ErrorCode.ILLEGAL_GENERATION: Verdict.ABORTABLE,
    },
    ApiKey.END_TXN: {
        ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.BUMP,
    },
    ApiKey.PRODUCE: {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Verdict.FATAL,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.FATAL,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.FATAL,
        ErrorCode.UNSUPPORTED_VERSION: Verdict.FATAL,
        ErrorCode.PRODUCER_FENCED: Verdict.FATAL,
    },
}
_ALL_ELSE: Final = {ApiKey.ADD_PARTITIONS_TO_TXN: Verdict.ABORTABLE}
_SEVERITY: Final = (
    Verdict.DONE,
    Verdict.RETRY,
    Verdict.FIND_COORDINATOR,
    Verdict.ABORTABLE,
    Verdict.BUMP,
    Verdict.FATAL,
)


def verdict_of(api_key: int, code: ErrorCode) -> Verdict:
    """What `code` in an answer of `api_key` means, an API of transactions or FindCoordinator."""
    if code in _FENCED:
        return Verdict.FATAL
    found = _OF_API[api_key].get(code) or _COMMON.get(code)
    if found is not None:
        return found
    return Verdict.RETRY if code.retriable else _ALL_ELSE.get(ApiKey(api_key), Verdict.FATAL)


def verdict_of_batch(code: ErrorCode) -> Verdict:
    """What it means that a batch of the transaction has failed for good with `code`.

    INVALID_PRODUCER_EPOCH is abortable here (KIP-588): aborting tells whether the producer is fenced.
    """
    return _OF_API[ApiKey.PRODUCE].get(code, Verdict.BUMP)


def worst_of(
    api_key: int, asked: Iterable[TopicPartition], told: Mapping[TopicPartition, int]
) -> tuple[TopicPartition, ErrorCode] | None:
    """The partition whose error decides about the whole answer; None when all went well.

    A partition that the answer lacks has failed. OPERATION_NOT_ATTEMPTED only says that another has failed.
    """

    def severity(code: ErrorCode) -> int:
        verdict = verdict_of(api_key, code)
        return 2 * _SEVERITY.index(verdict) if code is not ErrorCode.OPERATION_NOT_ATTEMPTED else 1

    codes = [(tp, known_code(told.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR))) for tp in asked]
    worst = max(codes, key=lambda entry: severity(entry[1]), default=None)
    return None if worst is None or worst[1] is ErrorCode.NONE else worst


def plain_code(code: ErrorCode) -> ErrorCode:
    """`code` as the application is told: old coordinators say INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    return ErrorCode.PRODUCER_FENCED if code in _FENCED else code
