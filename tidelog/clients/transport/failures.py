"""Exceptions for the error codes of responses, and the codes that require an action of the client."""

from __future__ import annotations

import ssl
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

COORDINATOR_MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Errors in responses after which the coordinator has to be looked up again."""

COORDINATOR_LOST: Final = COORDINATOR_MOVED | {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
"""`COORDINATOR_MOVED`, and the errors of a connection with the same consequence."""


_LOST_CONNECTIONS: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""TLS errors that mean that the peer has closed the connection."""


class TlsAuthenticationError(KafkaError):
    """A failed TLS handshake: client and broker do not accept each other's certificates or versions.

    It is not retriable. Kafka's protocol has no error code for it, so the code is UNKNOWN_SERVER_ERROR.
    Source: SslAuthenticationException of Apache Kafka 4.3.
    """


def is_tls_failure(error: BaseException | None) -> bool:
    """Return whether an error of opening a connection, or its cause, is that of a failed TLS handshake.

    With TLS 1.3 a broker refuses the certificate of a client only after the client's part of the handshake.
    """
    if isinstance(error, KafkaError):
        error = error.__cause__
    return isinstance(error, ssl.SSLError) and not isinstance(error, _LOST_CONNECTIONS)


def copy_of(error: KafkaError) -> KafkaError:
    """Return a new exception for each receiver, so that tracebacks do not accumulate."""
    kind = type(error)
    found = kind.__new__(kind, *error.args)
    found.__dict__.update(error.__dict__)
    found.__cause__ = error.__cause__
    return found


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
