"""Finds the start of each record in many payloads: only this must read one record after the other.

A payload is the decompressed content of a batch after its header. There are three methods. If all records of
a payload have one length, the starts are computed and the lengths compared. Many payloads with few records
are read in lockstep, one record of each in a step. The rest is read in a plain loop that reads lengths only.
A start is the end of the record before it according to that record; the reader of the records checks this.
"""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record_columns.varints import Bytes, Numbers, read_varints

# A lockstep step costs as much as reading about this many records in the loop.
_LOCKSTEP_PAYLOADS_MIN: Final = 64
_EQUAL_LENGTH_RECORDS_MIN: Final = 16


def _record_sizes() -> Numbers:
    """Return the size of a record, its length included, by the first two bytes of it (little-endian).

    The size is 0 if the length takes more bytes, or is negative.
    """
    pairs = np.arange(2**16)
    first, second = pairs & 0xFF, pairs >> 8
    in_one, in_two = 1 + (first >> 1), 2 + ((first & 0x7F) >> 1) + (second << 6)
    sizes = np.where(first < 0x80, in_one, np.where(second < 0x80, in_two, 0))
    sizes[(first & 1) == 1] = 0
    return sizes


_RECORD_SIZES: Final = _record_sizes()


def record_starts(data: bytes, payload_starts: Numbers, payload_ends: Numbers, counts: Numbers) -> Numbers:
    """Return the position of the length of every record in the payloads of `data`, which ends with padding.

    Errors: DecodeError if a record ends outside its payload. The reader must detect overlapping records.
    """
    total = int(counts.sum())
    if total == 0:
        return np.empty(0, dtype=np.int64)
    if total >= _LOCKSTEP_PAYLOADS_MIN * int(counts.max()):
        return _in_lockstep(data, payload_starts, payload_ends, counts)
    parts = [
        _in_one_payload(data, start, end, count)
        for start, end, count in zip(
            payload_starts.tolist(), payload_ends.tolist(), counts.tolist(), strict=True
        )
    ]
    return np.concatenate(parts)


def _in_lockstep(data: bytes, payload_starts: Numbers, payload_ends: Numbers, counts: Numbers) -> Numbers:
    """Read all payloads together, largest record count first, so that the active ones are a prefix."""
    order = np.argsort(-counts, kind="stable")
    first_index = (np.cumsum(counts) - counts)[order]
    ends = payload_ends[order]
    positions = payload_starts[order].copy()
    sorted_counts = counts[order]
    starts = np.empty(int(counts.sum()), dtype=np.int64)
    # An element starts at each byte. Fields of type V have no alignment, so they can overlap.
    pairs = np.ndarray((len(data) - 1,), dtype="V2", buffer=data, strides=(1,))
    view = np.frombuffer(data, dtype=np.uint8)
    steps = np.arange(int(sorted_counts[0]))
    active_counts = np.searchsorted(-sorted_counts, -steps, side="left").tolist()
    for step, active in enumerate(active_counts):
        current = positions[:active]
        starts[first_index[:active] + step] = current
        try:
            sizes = _RECORD_SIZES[pairs[current].view("<u2")]
        except IndexError:
            raise DecodeError(f"record {step} of a batch starts after the end of all batches") from None
        if not sizes.all():
            sizes = _sizes(view, current, ends[:active])
        current += sizes
    if (positions > ends).any():
        raise DecodeError("a record ends after the end of its batch")
    return starts


def _sizes(data: Bytes, positions: Numbers, ends: Numbers) -> Numbers:
    """Return the sizes of the records at `positions`, of any length; too large a size for an invalid one."""
    lengths, bodies = read_varints(data, positions)
    # Compare before adding: a length can have up to 64 bits.
    is_valid = (lengths >= 0) & (lengths <= ends - bodies)
    return np.where(is_valid, bodies + lengths - positions, ends - positions + 1)


def _in_one_payload(data: bytes, start: int, end: int, count: int) -> Numbers:
    run = _equal_lengths(data, start, end, count)
    if run is not None:
        return run
    return _walk(data, start, end, count)


def _equal_lengths(data: bytes, start: int, end: int, count: int) -> Numbers | None:
    """Return the starts if every record has the length of the first, as with uniform events; else None."""
    size = end - start
    if count < _EQUAL_LENGTH_RECORDS_MIN or size % count:
        return None
    stride = size // count
    prefix = _length_prefix(data, start)
    if _unzigzag(prefix) + len(prefix) != stride:
        return None
    rows: NDArray[np.uint8] = np.frombuffer(data, dtype=np.uint8, count=size, offset=start)
    columns = rows.reshape(count, stride)[:, : len(prefix)]
    if not (columns == np.frombuffer(prefix, dtype=np.uint8)).all():
        return None
    return np.arange(start, end, stride, dtype=np.int64)


def _length_prefix(data: bytes, position: int) -> bytes:
    last = position
    while data[last] & 0x80:
        last += 1
    return data[position : last + 1]


def _unzigzag(varint: bytes) -> int:
    value = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(varint))
    return (value >> 1) ^ -(value & 1)


def _walk(data: bytes, start: int, end: int, count: int) -> Numbers:
    """Read the records in a loop. Lengths of one and two bytes (records up to 8 KiB) are decoded inline."""
    starts = array("q", bytes(8 * count))
    position = start
    try:
        for index in range(count):
            starts[index] = position
            value = data[position]
            if value < 0x80:
                position += 1 + (value >> 1)
                continue
            second = data[position + 1]
            if second < 0x80:
                position += 2 + ((value & 0x7F) >> 1) + (second << 6)
                continue
            prefix = _length_prefix(data, position)
            position += len(prefix) + _unzigzag(prefix)
            if position <= starts[index]:
                break
    except (IndexError, OverflowError):
        position = -1
    if position != end:
        raise DecodeError(f"{count} records do not end where their batch does, at byte {end - start}")
    return np.frombuffer(starts, dtype=np.int64)
