"""Compaction of a log compared with a plain copy of the same bytes; both are synced.

The log is completely dirty. Each random key occurs about twice, so that every second record is removed.
The throttling of the broker is disabled, so that only the work is measured.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figures import Comparison, Figure
from benchmarks.suites.effort import KIBIBYTE, MEBIBYTE, MEGA, MESSAGE_BYTES, Effort, size_name
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.steps import run_steps
from tidelog.storage.compaction.cleanable import find_cleanable
from tidelog.storage.compaction.cleaning import GroupCleaner, OffsetMapFiller
from tidelog.storage.compaction.key_hashes import SECRET_BYTES, KeyHasher
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.compaction.plan import CleaningPlan, open_cleaned, plan_cleaning
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.log.opening import CheckpointedState, LogLocation, LogOptions
from tidelog.storage.log.partition_log import PartitionLog

_AT_LEAST: Final = 0.3
_LOG_BYTES: Final = 256 * MEBIBYTE
_BATCH_BYTES: Final = 16 * KIBIBYTE
_IO_BUFFER_BYTES: Final = 256 * KIBIBYTE
_MAP_BYTES: Final = 128 * MEBIBYTE
_LOAD_FACTOR: Final = 0.9
_CONFIG: Final = replace(DEFAULT_LOG_CONFIG, cleanup_policy=("compact",), segment_bytes=64 * MEBIBYTE)
_OPTIONS: Final = LogOptions(producer_id_expiration_ms=86_400_000, remote_storage_system_enable=False)
_NOW_MS: Final = 1_700_000_000_000


def compaction(effort: Effort) -> Iterator[Figure]:
    """Measure compacted bytes per second, for small and larger records."""
    for size in MESSAGE_BYTES:
        pairs = []
        for _ in range(effort.rounds):
            with TemporaryDirectory() as directory:
                log = _filled_log(directory, int(_LOG_BYTES * effort.scale), size)
                copied = _copy_rate(log, Path(directory) / "copy")
                pairs.append((_compaction_rate(log), copied))
                log.close(clean=False)
        name = f"compaction of a log, {size_name(size)}, every second record goes"
        yield Comparison.of(pairs).figure(name, "MB/s", "copy", at_least=_AT_LEAST)


def _filled_log(directory: str, log_bytes: int, value_bytes: int) -> PartitionLog:
    partition = TopicPartition("tides", 0)
    path = f"{directory}/tides-0"
    location = LogLocation(OsFileSystem(), path, partition)
    log = PartitionLog.open(location, _CONFIG, CheckpointedState(), now_ms=_NOW_MS, options=_OPTIONS)
    randomness = random.Random(value_bytes)
    keys = log_bytes // (value_bytes + 30) // 2
    while log.size_bytes < log_bytes:
        builder = BatchBuilder()
        while builder.estimated_size_bytes < _BATCH_BYTES:
            builder.append(_NOW_MS, b"key-%010d" % randomness.randrange(keys), bytes(value_bytes))
        log.append_as_leader(builder.build(), 0, _NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    log.roll(_NOW_MS)
    log.flush(_NOW_MS)
    return log


def _copy_rate(log: PartitionLog, target: Path) -> float:
    began = time.perf_counter()
    with target.open("wb") as output:
        for segment in log.segments:
            position = 0
            while data := segment.file.pread(_IO_BUFFER_BYTES, position):
                output.write(data)
                position += len(data)
        output.flush()
        os.fsync(output.fileno())
    return log.size_bytes / (time.perf_counter() - began) / MEGA


def _compaction_rate(log: PartitionLog) -> float:
    size_bytes, began = log.size_bytes, time.perf_counter()
    plan = run_steps(plan_cleaning(log, find_cleanable(log, _NOW_MS), _NOW_MS, _IO_BUFFER_BYTES))
    hasher = KeyHasher(os.urandom(SECRET_BYTES))
    offsets = OffsetMap.within(hasher, _MAP_BYTES, _LOAD_FACTOR, record_count_max=plan.task.dirty_count_max)
    end_offset = OffsetMapFiller(log.fs, plan.task, offsets, _unpaced).fill()
    with ThreadPoolExecutor(1) as syncing:
        cleaner = GroupCleaner(
            log.fs,
            plan.task,
            offsets,
            _unpaced,
            lambda work: syncing.submit(work).result,
        )
        groups = plan.groups(end_offset)
        for number, group in enumerate(groups):
            cleaner.clean(group)
            if number:
                _replace(log, plan, groups[number - 1])
        cleaner.sync()
        _replace(log, plan, groups[-1])
    return size_bytes / (time.perf_counter() - began) / MEGA


def _replace(log: PartitionLog, plan: CleaningPlan, group: Sequence[SourceSegment]) -> None:
    log.replacement.begin(open_cleaned(log, group), plan.segments_of(group))
    log.replacement.sync()
    log.replacement.commit(_NOW_MS)
    log.replacement.sync()
    log.replacement.finish()


def _unpaced(size_bytes: int) -> None:
    """Return without a pause."""
