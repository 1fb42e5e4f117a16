"""A column of bytes gathered from places in one buffer, by Arrow and not byte string by byte string.

The buffer is seen as a column of pieces, the wanted ones and what lies between them; taking the wanted
ones copies each once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelog.spark_connector.arrow.varints import Numbers


def pieces_column(data: bytes, starts: Numbers, lengths: Numbers) -> pa.Array:
    """`lengths[i]` bytes from `starts[i]` on, null where the length is -1; a column of type binary.

    `starts` ascend and pieces do not overlap; `data` is shorter than 2 GiB.
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
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    return pieces.take(pa.array(wanted, mask=is_null if is_null.any() else None))
