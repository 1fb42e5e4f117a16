"""Builds the column `headers`: null for a record without headers, otherwise a list of keys and values.

Headers are read in lockstep: the first header of every record, then the second, and so on. When few records
have headers left, the rest is read in a plain loop.

Source: the layout in `tidelog.protocol.record`; the column of Spark's Kafka source.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import read_varlong
from tidelog.protocol.record_columns.varints import Bytes, Numbers, read_varints
from tidelog.spark_connector.arrow.binary_columns import pieces_column
from tidelog.spark_connector.arrow.record_fields import RecordFields
from tidelog.spark_connector.arrow.schema import HEADER_TYPE, HEADERS_TYPE

# For fewer records, a step in numpy costs more than the loop.
_LOCKSTEP_RECORDS_MIN: Final = 8


class _HeaderFields(NamedTuple):
    """The positions of the keys and values of the headers, one row per header in the order of the log."""

    key_starts: Numbers
    key_lengths: Numbers
    value_starts: Numbers
    value_lengths: Numbers


def headers_column(fields: RecordFields, start: int, end: int) -> pa.Array:
    """Return the headers of the records `start` to `end` (exclusive) of `fields`.

    Invalid UTF-8 in a key is replaced, as in the Java consumer.
    Errors: DecodeError if the headers do not fill the bytes between a record's value and its end.
    """
    counts = fields.header_counts[start:end]
    header_fields = _read(fields, start, end)
    data = fields.data
    values = pieces_column(data, header_fields.value_starts, header_fields.value_lengths)
    keys = _as_text(pieces_column(data, header_fields.key_starts, header_fields.key_lengths))
    headers = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    ends = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=ends[1:])
    return pa.ListArray.from_arrays(pa.array(ends), headers, type=HEADERS_TYPE, mask=pa.array(counts == 0))


def _as_text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def _read(fields: RecordFields, start: int, end: int) -> _HeaderFields:
    data: Bytes = np.frombuffer(fields.data, dtype=np.uint8)
    counts, ends = fields.header_counts[start:end], fields.ends[start:end]
    total = int(counts.sum())
    header_fields = _HeaderFields(*(np.empty(total, dtype=np.int64) for _ in range(4)))
    first_index = np.cumsum(counts) - counts
    positions = fields.header_starts[start:end].copy()
    active = np.flatnonzero(counts)
    step = 0
    while len(active) >= _LOCKSTEP_RECORDS_MIN:
        positions[active] = _read_step(
            data, positions[active], ends[active], first_index[active] + step, header_fields
        )
        step += 1
        active = active[counts[active] > step]
    for record in active.tolist():
        rows = range(int(first_index[record]) + step, int(first_index[record] + counts[record]))
        positions[record] = _read_rest(
            fields.data, int(positions[record]), int(ends[record]), rows, header_fields
        )
    mismatches = np.flatnonzero((counts > 0) & (positions != ends))
    if mismatches.size:
        raise DecodeError(
            f"{ends[mismatches[0]] - positions[mismatches[0]]} bytes of a record follow its headers"
        )
    return header_fields


def _read_step(
    data: Bytes, positions: Numbers, ends: Numbers, rows: Numbers, header_fields: _HeaderFields
) -> Numbers:
    """Read one header of each record into `rows` of `header_fields`; return the positions after it."""
    key_lengths, key_starts = _read_lengths(data, positions, ends)
    if (key_lengths < 0).any():
        raise DecodeError(f"invalid length {key_lengths.min()} of a header's key")
    value_lengths, value_starts = _read_lengths(data, key_starts + key_lengths, ends)
    header_fields.key_starts[rows] = key_starts
    header_fields.key_lengths[rows] = key_lengths
    header_fields.value_starts[rows] = value_starts
    header_fields.value_lengths[rows] = value_lengths
    return np.asarray(value_starts + np.maximum(value_lengths, 0), dtype=np.int64)


def _read_rest(data: bytes, position: int, end: int, rows: range, header_fields: _HeaderFields) -> int:
    """Read the remaining headers of one record into `rows` of `header_fields`; return their end."""
    for row in rows:
        for starts, lengths, shortest in (
            (header_fields.key_starts, header_fields.key_lengths, 0),
            (header_fields.value_starts, header_fields.value_lengths, -1),
        ):
            if position >= end:
                raise DecodeError("a record ends within its headers")
            length, position = read_varlong(data, position)
            if not shortest <= length <= end - position:
                raise DecodeError(f"invalid length {length} in the headers of a record")
            starts[row], lengths[row] = position, length
            position += max(length, 0)
    return position


def _read_lengths(data: Bytes, positions: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    if (positions >= ends).any():
        raise DecodeError("a record ends within its headers")
    lengths, starts = read_varints(data, positions)
    if ((lengths < -1) | (lengths > ends - starts)).any():
        raise DecodeError(f"invalid lengths {lengths.min()} to {lengths.max()} in the headers of a record")
    return lengths, starts
