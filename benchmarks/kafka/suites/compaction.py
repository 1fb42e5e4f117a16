"""Compaction of a log of 100-byte records, half of them superseded."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import KIBIBYTE, MEBIBYTE, MEGA, Better, Case, Effort, Findings, Metric, Suite
from benchmarks.processes import BenchmarkError, run_load

TOPIC: Final = "compacted"
RECORD_BYTES: Final = 100
RECORDS: Final = 2_400_000
"""263 MB in batches of 16 KiB."""
BATCH_BYTES: Final = 16 * KIBIBYTE
SEGMENTS: Final = 8
STORED_RECORD_BYTES: Final = 110
SETTINGS: Final = (("log.cleaner.backoff.ms", "200"),)
COMPACTED_WITHIN_S: Final = 180.0
POLL_S: Final = 0.01
SETTLE_S: Final = 2.0
"""Tidelog compacts only what is durable, and syncs a sealed segment at most a second later."""
CHECKPOINT: Final = "cleaner-offset-checkpoint"

RATE: Final = Metric(
    key="megabytes_per_s", name="log compacted", unit="MB/s", better=Better.HIGHER, target=1.5
)
SECONDS: Final = Metric(key="seconds", name="time until compacted", unit="s", better=Better.LOWER)
CPU: Final = Metric(key="cpu_s", name="broker CPU until then", unit="s", better=Better.LOWER)


def compaction_cases(effort: Effort) -> list[Case]:
    """Return the one case; its first, unmeasured round warms up the cleaner."""
    records = int(RECORDS * effort.scale)
    return [
        Case(
            group=f"compaction, {records * STORED_RECORD_BYTES / MEGA:.0f} MB of 100 B records",
            variant="",
            metrics=(RATE, SECONDS, CPU),
            setup=Setup(settings=SETTINGS),
            prepare=partial(_warm_up, records // 4),
            prepare_s=4.0 + 5.0 * effort.scale,
            turn=partial(_turn, records),
            turn_s=5.0 + 12.0 * effort.scale,
        )
    ]


def _warm_up(records: int, brokers: Brokers) -> None:
    _turn(records, brokers)


def _turn(records: int, brokers: Brokers) -> Findings:
    segment_bytes = max(MEBIBYTE, records * STORED_RECORD_BYTES // SEGMENTS)
    configs = {"cleanup.policy": "delete", "min.cleanable.dirty.ratio": "0.01"}
    brokers.create_topic(TOPIC, 1, {**configs, "segment.bytes": str(segment_bytes)})
    run_load(
        "keyed",
        servers=brokers.addresses,
        topic=TOPIC,
        records=records,
        record_bytes=RECORD_BYTES,
        batch_bytes=BATCH_BYTES,
    )
    time.sleep(SETTLE_S)
    [folder] = brokers.partition_folders(TOPIC)
    # The active segment is not compacted.
    *sealed, active = sorted(folder.glob("*.log"))
    sealed_bytes = sum(path.stat().st_size for path in sealed)
    cpu_before, started = brokers.cpu_seconds(), time.perf_counter()
    brokers.alter_topic(TOPIC, {"cleanup.policy": "compact"})
    _until_compacted(brokers, int(active.stem))
    seconds = time.perf_counter() - started
    cpu_s = brokers.cpu_seconds() - cpu_before
    brokers.delete_topic(TOPIC)
    return {"megabytes_per_s": sealed_bytes / MEGA / seconds, "seconds": seconds, "cpu_s": cpu_s}


def _until_compacted(brokers: Brokers, end_offset: int) -> None:
    """Wait until the cleaner's checkpoint, which both engines write, has reached the active segment."""
    deadline = time.monotonic() + COMPACTED_WITHIN_S
    path = brokers.data(0) / CHECKPOINT
    while checkpoint_offset(path, TOPIC) < end_offset:
        brokers.check_running()
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{brokers.engine.value} did not compact within {COMPACTED_WITHIN_S:.0f} s")
        time.sleep(POLL_S)


def checkpoint_offset(path: Path, topic: str) -> int:
    """Return the offset of a topic's partition 0 in a checkpoint file; 0 if it has no entry."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return 0
    entries = (line.split() for line in lines[2:])
    return next((int(entry[2]) for entry in entries if entry[:2] == [topic, "0"] and len(entry) == 3), 0)


COMPACTION: Final = Suite(
    name="compaction",
    what="263 MB of 100 B records, half of them superseded, log.cleaner.backoff.ms=200: from the change of "
    "cleanup.policy until the cleaner's checkpoint has reached the active segment",
    cases=compaction_cases,
)
