"""Records are skimmed in steps with the same timestamps, offsets and null keys as by the reader."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.batches.damage import damaged_copies
from tidelog.protocol.batch import BatchHeader, read_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import iterate_payload, read_payload
from tidelog.protocol.record_skim import HEADERS_PER_STEP, RECORDS_PER_STEP, WINDOW_BYTES, RecordSkimmer
from tidelog.protocol.steps import run_steps

NOW_MS = 1_700_000_000_000


Row = tuple[int, bytes | None, bytes | None, int]


def batch_of(records: list[Row], **options: int) -> tuple[bytes, BatchHeader]:
    """Build a batch of these records; return its decompressed records and its header."""
    builder = BatchBuilder(**options)  # type: ignore[arg-type]
    for timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, [("h", b"x"), ("", None)] * headers)
    batch = builder.build()
    header = read_header(batch)
    return read_payload(batch, 0, header, 1 << 30), header


def skim(data: bytes, header: BatchHeader) -> list[tuple[int, int, bool]]:
    """Return offset, timestamp and presence of a key for each record."""
    skimmer = RecordSkimmer(memoryview(data), header)
    records: list[tuple[int, int, bool]] = []
    while not skimmer.is_at_end:
        part = run_steps(skimmer.skim())
        assert part.first_index == len(records)
        assert 0 < len(part.timestamps) == len(part.offset_deltas) <= RECORDS_PER_STEP
        for index, (timestamp, delta) in enumerate(zip(part.timestamps, part.offset_deltas, strict=True)):
            has_key = part.first_index + index not in part.without_key
            records.append((header.base_offset + delta, timestamp, has_key))
    return records


def read(data: bytes, header: BatchHeader) -> list[tuple[int, int, bool]]:
    return [(r.offset, r.timestamp, r.key is not None) for r in iterate_payload(data, header)]


def random_records(random: Random, count: int) -> list[Row]:
    deltas_ms = (0, 1, -1, 63, -64, 64, 10**6, -(10**9))
    sizes = (0, 1, 63, 64, 200, 9000, WINDOW_BYTES, WINDOW_BYTES + 50)

    def blob() -> bytes | None:
        size = random.choices(sizes, (20, 20, 20, 20, 10, 5, 1, 1))[0]
        return None if random.random() < 0.1 else bytes(size)

    return [
        (NOW_MS + random.choice(deltas_ms), blob(), blob(), random.choice((0, 0, 1, 70)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_skimming_equals_reading(seed: int) -> None:
    random = Random(seed)
    records = random_records(random, random.choice((1, 2, 10, 300, RECORDS_PER_STEP + 1)))
    for options in ({}, {"base_offset": 77, "log_append_time": NOW_MS + 5}):
        data, header = batch_of(records, **options)
        assert skim(data, header) == read(data, header)


def test_small_records_at_every_position_of_a_window_are_skimmed() -> None:
    for size in range(1, 24):
        data, header = batch_of([(NOW_MS, b"k", bytes(size), 0)] * (3 * WINDOW_BYTES // (size + 9)))
        assert skim(data, header) == read(data, header)


def test_skimming_refuses_what_reading_refuses() -> None:
    data, header = batch_of(random_records(Random(5), 12))
    for damaged in damaged_copies(data, "skim", flips=1500):
        try:
            expected = read(damaged, header)
        except DecodeError:
            with pytest.raises(DecodeError):
                skim(damaged, header)
        else:
            assert skim(damaged, header) == expected


def test_a_record_count_that_differs_from_the_header_is_refused() -> None:
    data, header = batch_of([(NOW_MS, b"k", b"v", 0)] * 5)
    for count in (4, 6):
        with pytest.raises(DecodeError):
            skim(data, header._replace(record_count=count))


def test_a_record_with_many_headers_takes_many_steps() -> None:
    count = 100 * HEADERS_PER_STEP
    data, header = batch_of([(NOW_MS, b"k", b"v", count // 2)])
    skimmer = RecordSkimmer(memoryview(data), header)
    assert sum(1 for _ in skimmer.skim()) >= 99
