"""Offsets that an application gives."""

from __future__ import annotations

from typing import Final

from tidelog.protocol.errors import ErrorCode, KafkaError

_OFFSET_MAX: Final = 2**63 - 1


def require_offset(offset: object, what: str) -> None:
    """TypeError for an offset that is no int; KafkaError(OFFSET_OUT_OF_RANGE) for one that no log has."""
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise TypeError(f"{what} to {offset!r}: a {type(offset).__name__}, expected a whole number")
    if not 0 <= offset <= _OFFSET_MAX:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{what} to {offset}")
