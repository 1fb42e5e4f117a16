"""Compaction of a log in one call, and the remaining records."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TypeAlias

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset
from tidelog.protocol.record import Record, read_records
from tidelog.protocol.steps import run_steps
from tidelog.storage.compaction.cleanable import Cleanable, find_cleanable
from tidelog.storage.compaction.cleaning import GroupCleaner, OffsetMapFiller, Pace
from tidelog.storage.compaction.key_hashes import SECRET_BYTES, KeyHasher
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.compaction.plan import CleaningPlan, open_cleaned, plan_cleaning
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

Interleave: TypeAlias = Callable[[Iterator[None]], AbstractContextManager[None]]
"""Executes the steps of a replacement while another group is cleaned, which is the body of the context."""

HASHER = KeyHasher(random.Random(1).randbytes(SECRET_BYTES))
COMPACTED = log_config(cleanup_policy=("compact",), delete_retention_ms=1000)


def keyed_batch(
    records: Iterable[tuple[str | None, str | None]],
    *,
    compression: Compression = Compression.NONE,
    timestamps: int | list[int] = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    log_append_time: int | None = None,
) -> bytearray:
    """Return a batch of keys with values, None for a tombstone; one timestamp for all or one for each."""
    builder = BatchBuilder(
        compression=compression,
        log_append_time=log_append_time,
        producer=BatchProducer(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        ),
    )
    for index, (key, value) in enumerate(records):
        timestamp = timestamps if isinstance(timestamps, int) else timestamps[index]
        builder.append(timestamp, _bytes(key), _bytes(value))
    return builder.build()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def append_keyed(log: PartitionLog, *records: tuple[str | None, str | None], **options: object) -> Offset:
    """Append one batch as the leader, replicated at once; return its first offset."""
    data = keyed_batch(records, **options)  # type: ignore[arg-type]
    info = log.append_as_leader(data, 0, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


def roll(log: PartitionLog, now_ms: int = NOW_MS) -> None:
    """Roll and flush the active segment, so that it can be compacted."""
    log.roll(now_ms)
    log.flush(now_ms)


@dataclass
class Round:
    """The result of one compaction round."""

    cleanable: Cleanable
    end_offset: Offset
    bytes_read: int
    bytes_written: int


def synced_late(work: Callable[[], None]) -> Callable[[], None]:
    """Sync a segment when the cleaner waits for it."""
    return work


@contextmanager
def replaced_before(steps: Iterator[None]) -> Iterator[None]:
    """Replace the segments of a group before the next one is cleaned."""
    for _ in steps:
        pass
    yield


def interleaved(disk: CrashFileSystem, first: int, patch: pytest.MonkeyPatch) -> Interleave:
    """Execute one step of a replacement before each operation of the cleaner, from number `first` on."""

    @contextmanager
    def interleave(steps: Iterator[None]) -> Iterator[None]:
        operation, operations, is_replacing = disk.operation, count(), False

        def operation_after_step(text: str) -> AbstractContextManager[int]:
            nonlocal is_replacing
            if not is_replacing and next(operations) >= first:
                is_replacing = True
                next(steps, None)
                is_replacing = False
            return operation(text)

        with patch.context() as patched:
            patched.setattr(disk, "operation", operation_after_step)
            yield
        for _ in steps:
            pass

    return interleave


def compact(
    log: PartitionLog,
    now_ms: int = NOW_MS,
    *,
    key_count_max: int = 1000,
    io_buffer_bytes: int = 4096,
    pace: Pace = lambda size_bytes: None,
    interleave: Interleave = replaced_before,
) -> Round:
    """Run one round regardless of the dirty ratio, in the order of the log cleaner's rounds.

    The log must have dirty records.
    """
    cleanable = find_cleanable(log, now_ms)
    plan = run_steps(plan_cleaning(log, cleanable, now_ms, io_buffer_bytes))
    offsets = OffsetMap(HASHER, key_count_max, 2 * key_count_max)
    end_offset = OffsetMapFiller(log.fs, plan.task, offsets, pace).fill()
    cleaner = GroupCleaner(log.fs, plan.task, offsets, pace, synced_late)
    pending: deque[Iterator[None]] = deque()
    for group in plan.groups(end_offset):
        pending.append(replacement_steps(log, plan, group, now_ms))
        with interleave(pending.popleft() if len(pending) > 2 else iter(())):
            cleaner.clean(group)
    with interleave(pending.popleft() if len(pending) > 1 else iter(())):
        cleaner.sync()
    for _ in pending.popleft():
        pass
    log.set_first_dirty_offset(end_offset)
    return Round(cleanable, end_offset, cleaner.bytes_read, cleaner.bytes_written)


def replacement_steps(
    log: PartitionLog, plan: CleaningPlan, group: Sequence[SourceSegment], now_ms: int
) -> Iterator[None]:
    """Replace the segments of a group; a cleaner executes every second step, a sync, in a thread."""
    replacement = log.replacement
    replacement.begin(open_cleaned(log, group), plan.segments_of(group))
    try:
        for step in (partial(replacement.commit, now_ms), replacement.finish):
            yield
            with log.failures.storage_errors("compaction", is_final=True):
                replacement.sync()
            yield
            step()
    except (OSError, KafkaError):
        replacement.settle()
        raise


def read_log(log: PartitionLog, *, committed: bool = False) -> list[Record]:
    """Return the records that a client gets up to the high watermark or the last stable offset."""
    end = log.last_stable_offset if committed else log.high_watermark
    offset, records = log.log_start_offset, []
    while offset < end:
        read = log.read(offset, 512, upper_bound=end, at_least_one=True, with_aborted_transactions=True)
        if read.records is None:
            break  # compaction has removed all records from this offset on
        data, aborted = read.records.read(), list(read.aborted_transactions or [])
        for position, header in iterate_headers(data):
            offset = header.next_offset
            batch_records = read_records(data, position, header)
            if header.is_control:
                continue
            is_aborted = header.is_transactional and any(
                transaction.producer_id == header.producer_id
                and transaction.first_offset <= header.base_offset <= transaction.last_offset
                for transaction in aborted
            )
            if not (committed and is_aborted):
                records += batch_records
    return [record for record in records if record.offset >= log.log_start_offset]


def latest_of(records: Iterable[Record]) -> dict[bytes, tuple[Offset, bytes | None]]:
    """Return offset and value of the last record of each key: the reference model of compaction."""
    return {record.key: (record.offset, record.value) for record in records if record.key is not None}
