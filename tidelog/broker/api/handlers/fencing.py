"""The error of a fenced producer, by the version of its request (KIP-588)."""

from __future__ import annotations

from tidelog.protocol.errors import ErrorCode


def fencing_error(code: ErrorCode, version: int, fenced_from_version: int) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED for versions without that code."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_from_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
