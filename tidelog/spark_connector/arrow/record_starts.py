"""Where each record of many payloads begins: the one thing that has to be found record after record.

A payload is what a batch holds behind its header, expanded. Three ways, by shape: payloads whose records
are all of one length are measured out and compared; many payloads of few records are walked in lockstep,
one record of each a step; the rest is walked in a plain loop that looks at lengths only. What is found
here is checked by whoever reads the records: a begin is where the record before it says it ends.
"""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.errors import DecodeError
from tidelog.spark_connector.arrow.varints import Bytes, Numbers, read_varints

# A step of the lockstep costs as much as walking about so many records in the loop.
_LOCKSTEP_PAYLOADS_MIN: Final = 100
_SHORTEST_RUN: Final = 16


def record_starts(data: bytes, payload_starts: Numbers, payload_ends: Numbers, counts: Numbers) -> Numbers:
    """Positions of the length of every record of the payloads of `data`, which ends in padding.

    Errors: DecodeError when a walk leaves its payload; begins that overlap are for the reader to find.
    """
    total = int(counts.sum())
    if total == 0:
        return np.empty(0, dtype=np.int64)
    if total >= _LOCKSTEP_PAYLOADS_MIN * int(counts.max()):
        return _in_lockstep(np.frombuffer(data, dtype=np.uint8), payload_starts, payload_ends, counts)
    parts = [
        _of_one_payload(data, start, end, count)
        for start, end, count in zip(
            payload_starts.tolist(), payload_ends.tolist(), counts.tolist(), strict=True
        )
    ]
    return np.concatenate(parts)


def _in_lockstep(data: Bytes, payload_starts: Numbers, payload_ends: Numbers, counts: Numbers) -> Numbers:
    """All payloads at once, those with most records first so that those under way are a prefix."""
    order = np.argsort(-counts, kind="stable")
    first_index = (np.cumsum(counts) - counts)[order]
    ends = payload_ends[order]
    at = payload_starts[order].copy()
    sorted_counts = counts[order]
    starts = np.empty(int(counts.sum()), dtype=np.int64)
    for step in range(int(sorted_counts[0])):
        active = int(np.searchsorted(-sorted_counts, -step, side="left"))
        here = at[:active]
        starts[first_index[:active] + step] = here
        lengths, bodies = read_varints(data, here)
        # Compared before it is added: a length may be anything up to 64 bits.
        if ((lengths < 0) | (lengths > ends[:active] - bodies)).any():
            raise DecodeError(f"record {step} of a batch reaches beyond its {'' if step else 'first '}bytes")
        at[:active] = bodies + lengths
    return starts


def _of_one_payload(data: bytes, start: int, end: int, count: int) -> Numbers:
    run = _equal_lengths(data, start, end, count)
    if run is not None:
        return run
    return _walk(data, start, end, count)


def _equal_lengths(data: bytes, start: int, end: int, count: int) -> Numbers | None:
    """The begins when every record has the length of the first, as events of one shape do; else None."""
    size = end - start
    if count < _SHORTEST_RUN or size % count:
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


def _length_prefix(data: bytes, at: int) -> bytes:
    last = at
    while data[last] & 0x80:
        last += 1
    return data[at : last + 1]


def _unzigzag(varint: bytes) -> int:
    value = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(varint))
    return (value >> 1) ^ -(value & 1)


def _walk(data: bytes, start: int, end: int, count: int) -> Numbers:
    """The plain loop: one- and two-byte lengths in place, which are those of records up to 8 KiB."""
    starts = array("q", bytes(8 * count))
    at = start
    try:
        for index in range(count):
            starts[index] = at
            value = data[at]
            if value < 0x80:
                at += 1 + (value >> 1)
                continue
            second = data[at + 1]
            if second < 0x80:
                at += 2 + ((value & 0x7F) >> 1) + (second << 6)
                continue
            prefix = _length_prefix(data, at)
            at += len(prefix) + _unzigzag(prefix)
            if at <= starts[index]:
                break
    except (IndexError, OverflowError):
        at = -1
    if at != end:
        raise DecodeError(f"{count} records do not end where their batch does, at byte {end - start}")
    return np.frombuffer(starts, dtype=np.int64)
