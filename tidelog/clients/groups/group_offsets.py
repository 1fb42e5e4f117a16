"""The values of a commit of a group's offsets, and the check of offsets that applications pass."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset

_OFFSET_MAX: Final = 2**63 - 1


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, and a text that the application stores with it."""

    offset: Offset
    metadata: str = ""
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class ConsumerGroupMetadata(NamedTuple):
    """The group, generation and member that commit offsets (KIP-447); the defaults mean "no member"."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def require_offset(offset: object, operation: str) -> None:
    """Raise an error if `offset` cannot be the offset of a record.

    Errors: TypeError if it is not an int; KafkaError(OFFSET_OUT_OF_RANGE) outside 0..2^63 - 1. `operation`,
    such as "seek of tides-0", begins the text.
    """
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise TypeError(f"{operation} to {offset!r}: expected an integer, not {type(offset).__name__}")
    if not 0 <= offset <= _OFFSET_MAX:
        text = f"{operation} to {offset}: the offset must be in 0..{_OFFSET_MAX}"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
