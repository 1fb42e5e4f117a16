"""What a command gives back: a reply, the records that must be in the log first, and what then happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.errors import ErrorCode

R = TypeVar("R")
RecordT = TypeVar("RecordT")

Settled: TypeAlias = "Callable[[ErrorCode, Moment], Writes[RecordT]]"


class Writes(NamedTuple, Generic[RecordT]):
    """Records to append and replay, in order.

    `settled` is called once: with NONE when they are committed, else with why they are not. It
    may give further writes. `may_split`: they are independent and may go into several batches,
    because there can be any number of them; otherwise all or none are written. `encoded`: keys and values
    of the records, where somebody has encoded them already.
    """

    records: Sequence[RecordT] = ()
    settled: Settled[RecordT] | None = None
    may_split: bool = False
    encoded: Sequence[tuple[bytes, bytes | None]] | None = None


NOTHING: Final[Writes[Any]] = Writes()


class Outcome(NamedTuple, Generic[R]):
    """A reply that is valid once `writes` are committed."""

    reply: R
    writes: Writes[Any] = NOTHING


def error_of_append(code: ErrorCode) -> ErrorCode:
    """What the asker is told when its coordinator could not write.

    Source: the coordinator's error translation in Apache Kafka.
    """
    return _REPLY_TO_APPEND_ERROR.get(code, code)


_REPLY_TO_APPEND_ERROR = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
