"""Zigzag varints of many records read at once, one numpy operation per byte rather than per record.

Source: the encoding in `tidelog.protocol.primitives`; what is refused is what `tidelog.protocol.record`
refuses.
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
"""Stands behind the last record, so that a varint that is cut off ends in zeros and not beyond the data."""

_LAST_BYTE_MAX: Final = 1
_LAST_SHIFT: Final = 7 * (VARINT_BYTES_MAX - 1)


def read_varints(data: Bytes, positions: Numbers) -> tuple[Numbers, Numbers]:
    """The signed numbers at `positions`, each within `data` less its padding, and the positions behind them.

    Errors: DecodeError when a number takes more than 64 bits.
    """
    first = data[positions]
    following = positions + 1
    if not (first & 0x80).any():
        return _unzigzagged(first.astype(np.uint64)), following
    numbers = (first & 0x7F).astype(np.uint64)
    open_ones = np.flatnonzero(first & 0x80)
    shift = 7
    while open_ones.size:
        at = following[open_ones]
        more = data[at]
        if shift == _LAST_SHIFT and (more > _LAST_BYTE_MAX).any():
            raise DecodeError(f"varint over 64 bits at {positions[open_ones[more > _LAST_BYTE_MAX][0]]}")
        numbers[open_ones] |= (more & 0x7F).astype(np.uint64) << np.uint64(shift)
        following[open_ones] = at + 1
        open_ones = open_ones[more >= 0x80]
        shift += 7
    return _unzigzagged(numbers), following


def _unzigzagged(numbers: NDArray[np.uint64]) -> Numbers:
    signed = (numbers >> np.uint64(1)).view(np.int64)
    odd = (numbers & np.uint64(1)).view(np.int64)
    return np.asarray(signed ^ -odd, dtype=np.int64)
