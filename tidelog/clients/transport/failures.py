"""Exceptions for the error codes of responses, and the codes that require an action of the client."""

from __future__ import annotations

from typing import Final

from tidelog.protocol.errors import ErrorCode, KafkaError

STALE_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that mean that the client's metadata about leaders is stale."""

COORDINATOR_LOST: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors after which the coordinator has to be looked up again."""


def known_code(number: int) -> ErrorCode:
    """Return the error code `number`; UNKNOWN_SERVER_ERROR if it is not known."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def failure(number: int, subject: str, message: str | None = None) -> KafkaError:
    """Return the exception for an error code; `subject` has failed, `message` is the broker's text."""
    code = known_code(number)
    known = "" if code != ErrorCode.UNKNOWN_SERVER_ERROR or number == code else f" (code {number})"
    return KafkaError(code, f"{subject}: {message or code.text}{known} [{code.name}]")


def raise_for(number: int, subject: str, message: str | None = None) -> None:
    """Raise `failure` unless the code is NONE."""
    if number != ErrorCode.NONE:
        raise failure(number, subject, message)


def is_retriable(error: BaseException) -> bool:
    """Return whether the same request may succeed when it is sent again."""
    if isinstance(error, KafkaError):
        return error.code.retriable
    return isinstance(error, OSError)
