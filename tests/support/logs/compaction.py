"""Compaction of a log in one call, and the remaining records."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

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
from tidelog.storage.compaction.plan import open_cleaned, plan_cleaning
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment

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


def compact(
    log: PartitionLog,
    now_ms: int = NOW_MS,
    *,
    key_count_max: int = 1000,
    io_buffer_bytes: int = 4096,
    pace: Pace = lambda size_bytes: None,
) -> Round:
    """Run one round regardless of the dirty ratio; the log must have dirty records."""
    cleanable = find_cleanable(log, now_ms)
    plan = run_steps(plan_cleaning(log, cleanable, now_ms, io_buffer_bytes))
    offsets = OffsetMap(HASHER, key_count_max, 2 * key_count_max)
    end_offset = OffsetMapFiller(log.fs, plan.task, offsets, pace).fill()
    cleaner = GroupCleaner(log.fs, plan.task, offsets, pace)
    for group in plan.groups(end_offset):
        cleaner.clean(group)
        replace_segments(log, open_cleaned(log, group), plan.segments_of(group), now_ms)
    log.set_first_dirty_offset(end_offset)
    return Round(cleanable, end_offset, cleaner.bytes_read, cleaner.bytes_written)


def replace_segments(
    log: PartitionLog, cleaned: LogSegment, replaced: Sequence[LogSegment], now_ms: int
) -> None:
    """Replace segments at once, with the syncs that a cleaner does in a thread."""
    replacement = log.replacement
    replacement.begin(cleaned, replaced)
    try:
        for step in (partial(replacement.commit, now_ms), replacement.finish):
            with log.failures.storage_errors("compaction", is_final=True):
                replacement.sync()
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
