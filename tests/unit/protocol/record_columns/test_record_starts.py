"""The starts of records in many payloads, which are read in lockstep, and of damaged ones."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record_columns.record_starts import record_starts
from tidelog.protocol.record_columns.varints import PADDING
from tidelog.protocol.record_varint import encode_varint

PAYLOADS = 200
LENGTHS = (6, 63, 64, 100, 8191, 8192, 9000)
"""Lengths whose varints take one, two and three bytes."""


def start_positions(payloads: list[bytes], counts: list[int]) -> list[int]:
    sizes = np.array([len(payload) for payload in payloads])
    ends = np.cumsum(sizes)
    data = b"".join([*payloads, PADDING])
    starts: list[int] = record_starts(data, ends - sizes, ends, np.array(counts)).tolist()
    return starts


def test_records_of_every_length_are_found_in_many_payloads() -> None:
    randomness = random.Random(1)
    payloads, counts, expected, position = [], [], [], 0
    for _ in range(PAYLOADS):
        records = [
            encode_varint(length) + bytes(length)
            for length in randomness.choices(LENGTHS, k=randomness.randint(1, 3))
        ]
        for record in records:
            expected.append(position)
            position += len(record)
        payloads.append(b"".join(records))
        counts.append(len(records))
    assert start_positions(payloads, counts) == expected


@pytest.mark.parametrize("length", [-1, -100, 21, 8192, 2**31, 2**63 - 1])
def test_a_record_that_leaves_its_payload_is_rejected(length: int) -> None:
    good, bad = encode_varint(20) + bytes(20), encode_varint(length)
    payloads = [good * 2] * PAYLOADS
    payloads[PAYLOADS // 2] = good + bad + bytes(len(good) - len(bad))
    with pytest.raises(DecodeError, match="a record ends after the end of its batch"):
        start_positions(payloads, [2] * PAYLOADS)
