"""Builds a binary Arrow column from ranges of one buffer, without a Python object per value.

The buffer is treated as a column of pieces: the wanted ranges and the gaps between them. Arrow's `take`
then copies each wanted range once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelog.protocol.record_columns.varints import Numbers


def pieces_column(data: bytes, starts: Numbers, lengths: Numbers) -> pa.Array:
    """Return a column of type binary: `lengths[i]` bytes from `starts[i]`, null where the length is -1.

    `starts` must ascend, ranges must not overlap, and `data` must be shorter than 2 GiB.
    """
    count = len(starts)
    bounds = np.empty(2 * count, dtype=np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0)
    if count == 0:
        return pa.array([], type=pa.binary())
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    is_null = lengths < 0
    indices = np.arange(0, 2 * count, 2, dtype=np.int32)
    return pieces.take(pa.array(indices, mask=is_null if is_null.any() else None))
