"""Reads and writes the zigzag varints of many records together, with operations of numpy for each byte.

Source: the encoding in `tidelog.protocol.primitives`, with the checks of `tidelog.protocol.record`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.errors import DecodeError

Bytes: TypeAlias = NDArray[np.uint8]
Numbers: TypeAlias = NDArray[np.int64]

VARINT_BYTES_MAX: Final = 10
PADDING: Final = bytes(16)
"""Follows the last record, so that an incomplete varint ends in zeros and not after the data."""

_LAST_BYTE_MAX: Final = 1
_LAST_SHIFT: Final = 7 * (VARINT_BYTES_MAX - 1)


def read_varints(data: Bytes, positions: Numbers) -> tuple[Numbers, Numbers]:
    """Return the signed numbers at `positions` and the positions after them.

    Each position must be within `data` without its padding.
    Errors: DecodeError if a number has more than 64 bits.
    """
    first = data[positions]
    ends = positions + 1
    if not (first & 0x80).any():
        return _unzigzagged(first.astype(np.uint64)), ends
    numbers = (first & 0x7F).astype(np.uint64)
    unfinished = np.flatnonzero(first & 0x80)
    shift = 7
    while unfinished.size:
        next_positions = ends[unfinished]
        next_bytes = data[next_positions]
        if shift == _LAST_SHIFT and (next_bytes > _LAST_BYTE_MAX).any():
            raise DecodeError(
                f"varint over 64 bits at {positions[unfinished[next_bytes > _LAST_BYTE_MAX][0]]}"
            )
        numbers[unfinished] |= (next_bytes & 0x7F).astype(np.uint64) << np.uint64(shift)
        ends[unfinished] = next_positions + 1
        unfinished = unfinished[next_bytes >= 0x80]
        shift += 7
    return _unzigzagged(numbers), ends


def written_varints(numbers: Numbers) -> tuple[Bytes, NDArray[np.bool_]]:
    """Return the varint of each number in a row of VARINT_BYTES_MAX bytes, and which of them are used."""
    zigzag = (numbers << 1 ^ numbers >> 63).view(np.uint64)
    rows = np.empty((len(numbers), VARINT_BYTES_MAX), dtype=np.uint8)
    is_used = np.ones(rows.shape, dtype=np.bool_)
    for index in range(VARINT_BYTES_MAX):
        following = zigzag >> np.uint64(7)
        rows[:, index] = (zigzag & np.uint64(0x7F)) | np.where(following > 0, np.uint64(0x80), np.uint64(0))
        if index + 1 < VARINT_BYTES_MAX:
            is_used[:, index + 1] = following > 0
        zigzag = following
    return rows, is_used


def _unzigzagged(numbers: NDArray[np.uint64]) -> Numbers:
    signed = (numbers >> np.uint64(1)).view(np.int64)
    odd = (numbers & np.uint64(1)).view(np.int64)
    return np.asarray(signed ^ -odd, dtype=np.int64)
