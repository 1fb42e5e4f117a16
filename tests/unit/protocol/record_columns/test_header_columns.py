"""Headers of many batches at once, compared with those that are read one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, read_header, write_header
from tidelog.protocol.record_columns.header_columns import header_at, numbers_of, read_headers, write_headers

INT16, INT32, INT64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
COUNT = st.integers(0, 2**31 - 1)
HEADERS = st.builds(
    BatchHeader, INT64, st.just(49), INT32, st.just(2), st.just(0), INT16, COUNT, INT64, INT64, INT64, INT16,
    INT32, COUNT,
)  # fmt: skip


@given(st.lists(HEADERS, min_size=1, max_size=5), st.integers(0, 3))
def test_headers_equal_those_that_are_read_one_by_one(headers: list[BatchHeader], distance: int) -> None:
    size = BATCH_OVERHEAD + distance
    data = bytearray(size * len(headers))
    for number, header in enumerate(headers):
        write_header(data, number * size, header)
    starts = np.arange(0, len(data), size)
    columns = read_headers(data, starts)
    for number in range(len(headers)):
        assert header_at(columns, number) == read_header(data, number * size)
    for field in BatchHeader._fields:
        assert numbers_of(columns, field).tolist() == [
            getattr(header_at(columns, number), field) for number in range(len(headers))
        ]
    copy = bytearray(len(data))
    write_headers(copy, starts, columns)
    assert all(copy[at : at + BATCH_OVERHEAD] == data[at : at + BATCH_OVERHEAD] for at in starts)
    assert sum(copy) == sum(sum(data[at : at + BATCH_OVERHEAD]) for at in starts)
