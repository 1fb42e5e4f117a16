"""Slices of remote segments, planned by lineage and offset index, contain the records of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tests.support.configs import log_config
from tests.support.logs.partition_logs import all_records, append, append_marker, open_log
from tests.support.tier.metadata_managers import InMemoryRemoteLogMetadataManager
from tests.support.tier.remote_tier import PARTITION, MemoryTier, copy_sealed_segments
from tests.support.tier.segment_metadata import copy_start
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import DecodeError
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import IndexType
from tidelog.remote.reading.lineage import SegmentPart
from tidelog.remote.reading.served_parts import served_parts
from tidelog.spark_connector.arrow.decoder import DecoderSettings
from tidelog.spark_connector.planning.ranges import AbortedRange
from tidelog.spark_connector.planning.segment_slices import (
    OffsetPositions,
    SegmentSlice,
    combine_neighbours,
    divide_part,
    read_offset_index,
)
from tidelog.spark_connector.reading.slice_reader import read_slice
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

CONFIG = log_config(segment_bytes=6000, index_interval_bytes=300, retention_ms=-1)
SETTINGS = DecoderSettings(include_headers=True)
EVERYTHING = 1 << 40


@dataclass
class Tier:
    """A log whose sealed segments are in a tier, and the offsets of its committed records."""

    log: PartitionLog
    storage: MemoryTier
    manager: InMemoryRemoteLogMetadataManager
    segments: list[RemoteLogSegmentMetadata]
    committed: set[int]

    @property
    def border(self) -> int:
        """Return the first offset that is not in the tier."""
        return self.segments[-1].end_offset + 1

    def parts(self, start: int, end: int = EVERYTHING) -> list[SegmentPart]:
        return served_parts(self.manager, PARTITION, self.log.leader_epochs.entries, start, end)

    def slices(self, start: int, end: int = EVERYTHING, max_bytes: int = 1000) -> list[SegmentSlice]:
        cut = []
        for part in self.parts(start, end):
            data = self.storage.fetch_index(part.metadata, IndexType.OFFSET).read()
            cut += divide_part(part, read_offset_index(data, part.metadata), max_bytes)
        return cut

    def rows(self, one: SegmentSlice, **options: Any) -> list[tuple[int, bytes | None, bytes | None]]:
        return [
            (row["offset"], row["key"], row["value"])
            for batch in read_slice(self.storage, one, SETTINGS, **options)
            for row in batch.to_pylist()
        ]


def fill(log: PartitionLog, random: Random) -> set[int]:
    """Append batches of all codecs in increasing epochs, some in transactions; return committed offsets."""
    epoch = 0
    open_transactions: dict[int, list[int]] = {}
    sequences: dict[int, int] = {}
    committed: set[int] = set()
    for _ in range(200):
        epoch += random.random() < 0.05
        if open_transactions and random.random() < 0.2:
            producer = random.choice(list(open_transactions))
            is_abort = random.random() < 0.5
            append_marker(log, producer, is_abort=is_abort, leader_epoch=epoch)
            offsets = open_transactions.pop(producer)
            committed.update(() if is_abort else offsets)
            continue
        values = [f"{random.random()}" * random.randint(1, 6) for _ in range(random.randint(1, 9))]
        options: dict[str, object] = {"compression": random.choice(list(Compression))}
        producer = random.randint(0, 3)
        if producer:
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + len(values)
            options |= {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "is_transactional": True,
            }
        first = append(log, *values, leader_epoch=epoch, **options)
        target = open_transactions.setdefault(producer, []) if producer else None
        offsets = list(range(first, first + len(values)))
        committed.update(offsets) if target is None else target.extend(offsets)
    for producer, offsets in open_transactions.items():
        append_marker(log, producer, is_abort=False, leader_epoch=epoch)
        committed.update(offsets)
    return committed


@pytest.fixture(params=range(3))
async def tier(request: pytest.FixtureRequest) -> AsyncIterator[Tier]:
    log = open_log(CrashFileSystem(), CONFIG)
    committed = fill(log, Random(request.param))
    storage, manager = MemoryTier(), InMemoryRemoteLogMetadataManager()
    segments = await copy_sealed_segments(log, storage, manager)
    yield Tier(log, storage, manager, segments, committed)


def expected_records(tier: Tier, start: int, end: int) -> list[tuple[int, bytes | None, bytes | None]]:
    markers = control_offsets(tier)
    return [
        (one.offset, one.key, one.value)
        for one in all_records(tier.log, start)
        if one.offset < end and one.offset not in markers
    ]


def control_offsets(tier: Tier) -> set[int]:
    """Return the offsets of markers, whose keys are version 0 and type 0 or 1; other keys are one letter."""
    return {one.offset for one in all_records(tier.log) if one.key != b"k"}


async def test_slices_are_the_log_up_to_the_local_log_start(tier: Tier) -> None:
    for max_bytes in (1, 700, 2500, EVERYTHING):
        cut = tier.slices(0, max_bytes=max_bytes)
        assert [(one.start_offset) for one in cut] == [0, *(one.end_offset for one in cut[:-1])]
        assert cut[-1].end_offset == tier.border
        assert [row for one in cut for row in tier.rows(one)] == expected_records(tier, 0, tier.border)


async def test_any_range_is_cut_exactly_and_the_rest_is_read_from_brokers(tier: Tier) -> None:
    random = Random(5)
    for _ in range(40):
        start = random.randrange(tier.border)
        end = random.randint(start, tier.log.log_end_offset)
        cut = tier.slices(start, end)
        assert [row for one in cut for row in tier.rows(one)] == expected_records(
            tier, start, min(end, tier.border)
        )
        assert not cut or cut[-1].end_offset == min(end, tier.border)
    assert not tier.parts(tier.border)


async def test_only_committed_records_are_read_with_a_transaction_index(tier: Tier) -> None:
    aborted = [
        AbortedRange(one.producer_id, one.first_offset, one.last_offset)
        for one in tier.log.aborted_transactions(0, tier.log.log_end_offset)
    ]
    assert aborted
    cut = tier.slices(0, max_bytes=1500)
    for piece_bytes in (100, 1 << 20):
        offsets = [row[0] for one in cut for row in tier.rows(one, aborted=aborted, piece_bytes=piece_bytes)]
        assert offsets == sorted(offset for offset in tier.committed if offset < tier.border)


async def test_a_slice_fetches_little_more_than_its_bytes(tier: Tier) -> None:
    cut = tier.slices(0, max_bytes=1000)
    assert len(cut) > 2 * len(tier.segments)
    for one in cut:
        # A slice may be as long as two steps of the index; each step is at most one batch and the interval.
        assert one.size_bytes < 1000 + 2 * (300 + 700)
    total = sum(one.segment_size_bytes for one in tier.segments)
    assert sum(one.size_bytes for one in cut) < 2 * total


async def test_short_reads_and_large_batches_are_read_completely(tier: Tier) -> None:
    cut = tier.slices(0, max_bytes=EVERYTHING)
    tier.storage.bytes_at_most = 37
    assert [row for one in cut for row in tier.rows(one, piece_bytes=64)] == expected_records(
        tier, 0, tier.border
    )


async def test_a_truncated_segment_is_corruption_and_not_the_end(tier: Tier) -> None:
    (first, *_) = tier.slices(0, max_bytes=EVERYTHING)
    tier.storage.cut_after = first.size_bytes - 1
    with pytest.raises(DecodeError, match="end within a batch after offset"):
        tier.rows(first)


async def test_a_wrong_index_is_corruption_and_loses_no_record(tier: Tier) -> None:
    part = max(tier.parts(0), key=lambda each: each.metadata.segment_size_bytes)
    index = read_offset_index(tier.storage.fetch_index(part.metadata, IndexType.OFFSET).read(), part.metadata)
    assert len(index.positions) > 4
    # Each entry has the position of the next one.
    shifted = OffsetPositions(index.offsets[:-1], index.positions[1:])
    (last,) = divide_part(part._replace(start_offset=int(index.offsets[1]) + 1), shifted, EVERYTHING)
    with pytest.raises(DecodeError, match=r"its offset index has offset .* where the batch of offset"):
        tier.rows(last)
    # Each entry has the position of the previous one: a slice ends before its last records.
    early = OffsetPositions(index.offsets[1:], index.positions[:-1])
    (first, *_) = divide_part(part, early, 1000)
    with pytest.raises(DecodeError, match=r"its offset index has offset .* before byte"):
        tier.rows(first)


def test_adjacent_small_segments_share_a_task_within_a_partition() -> None:
    def piece(number: int, size: int, partition: int = 0) -> SegmentSlice:
        metadata = copy_start(number, 0, 9, partition=PARTITION._replace(partition=partition))
        return SegmentSlice(metadata, 0, 10, 0, size)

    pieces = [piece(1, 40), piece(2, 50), piece(3, 20), piece(4, 500), piece(5, 1), piece(6, 1, partition=1)]
    tasks = [[one.size_bytes for one in task] for task in combine_neighbours(pieces, 100)]
    assert tasks == [[40, 50], [20], [500], [1], [1]]


@pytest.mark.parametrize(
    "data",
    [b"12345", bytes(16), b"\0\0\0\x7f\0\0\0\x01", b"\0\0\0\x01\0\0\x7f\0", b"\xff\xff\xff\xff\0\0\0\x01"],
)
def test_an_invalid_index_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="offset index"):
        read_offset_index(data, copy_start(1, 0, 9))
