"""The result of a command: a reply, the records that must be committed first, and a follow-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.errors import ErrorCode

R = TypeVar("R")
RecordT = TypeVar("RecordT")

FollowUp: TypeAlias = "Callable[[ErrorCode, Moment], Writes[RecordT]]"


class Writes(NamedTuple, Generic[RecordT]):
    """Records to append and replay, in order.

    `follow_up` is called once: with NONE when the records are committed, or with the error if they are not.
    It may return further writes. If `may_split` is true, the records are independent, there can be any number
    of them, and they may be appended in several batches. Otherwise all or none are appended. `encoded` has
    the same records as keys and values, if they have been encoded already.
    """

    records: Sequence[RecordT] = ()
    follow_up: FollowUp[RecordT] | None = None
    may_split: bool = False
    encoded: EncodedRecords | None = None

    @property
    def arrays(self) -> tuple[Sequence[Any], ...]:
        """The arrays with an element for each record."""
        return (self.records,) if self.encoded is None else (self.records, self.encoded.records)


NO_WRITES: Final[Writes[Any]] = Writes()


class Outcome(NamedTuple, Generic[R]):
    """A reply that may be sent when `writes` are committed."""

    reply: R
    writes: Writes[Any] = NO_WRITES


def error_of_append(code: ErrorCode) -> ErrorCode:
    """Return the error of a reply whose records could not be appended.

    Source: the coordinator's error translation in Apache Kafka.
    """
    return _ERROR_OF_APPEND.get(code, code)


_ERROR_OF_APPEND = {
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
