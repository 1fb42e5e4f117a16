"""Reads and writes the headers of many batches at once: a structured array with a field for each of a header.

Source: the layout in `tidelog.protocol.batch`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader
from tidelog.protocol.record_columns.varints import Numbers

HeaderColumns: TypeAlias = NDArray[np.void]
"""One row per batch; the names of the fields are those of BatchHeader."""

_TYPES: Final = (">i8", ">i4", ">i4", "i1", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i2", ">i4", ">i4")
_HEADER: Final = np.dtype(list(zip(BatchHeader._fields, _TYPES, strict=True)))

assert _HEADER.itemsize == BATCH_OVERHEAD


def read_headers(data: bytes | bytearray, starts: Numbers) -> HeaderColumns:
    """Return the headers of the batches at `starts`, each of which is complete in `data`."""
    return _headers_of(data)[starts]


def write_headers(data: bytearray, starts: Numbers, headers: HeaderColumns) -> None:
    """Write `headers` at `starts`; their checksums are not updated."""
    _headers_of(data)[starts] = headers


def header_at(headers: HeaderColumns, index: int) -> BatchHeader:
    """Return one header."""
    return BatchHeader(*headers[index].item())


def numbers_of(headers: HeaderColumns, field: str) -> Numbers:
    """Return one field of all headers."""
    return headers[field].astype(np.int64)


def _headers_of(data: bytes | bytearray) -> NDArray[Any]:
    # An element starts at each byte.
    return np.ndarray((max(len(data) - BATCH_OVERHEAD + 1, 0),), dtype=_HEADER, buffer=data, strides=(1,))
