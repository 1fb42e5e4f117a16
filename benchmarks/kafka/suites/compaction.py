"""Compaction of records of 100 B and 1 KiB, half of them superseded, and the latency of produce meanwhile."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import (
    KIBIBYTE,
    MEBIBYTE,
    MEGA,
    Better,
    Case,
    Effort,
    Findings,
    Metric,
    Suite,
    TargetOf,
    size_name,
)
from benchmarks.processes import BenchmarkError, run_load

TOPIC: Final = "compacted"
LATENCY_TOPIC: Final = "delayed"
LATENCY_LOGS: Final = 3
LATENCY_PER_SECOND: Final = 1_000
LATENCY_S: Final = 3.0
LOG_BYTES: Final = 263_000_000
RECORD_SIZES: Final = (100, KIBIBYTE)
BATCH_BYTES: Final = 16 * KIBIBYTE
SEGMENTS: Final = 8
RECORD_OVERHEAD_BYTES: Final = 10
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
P99: Final = Metric(key="p99_ms", name="produce p99 during compaction", unit="ms", better=Better.LOWER)
P99_GROWTH: Final = Metric(
    key="p99_growth",
    name="produce p99 during compaction, divided by that before it",
    unit="x",
    better=Better.LOWER,
    target=1.2,
    target_of=TargetOf.TIDELOG,
)


def compaction_cases(effort: Effort) -> list[Case]:
    """Return a case for each record size, and that of the latency; unmeasured rounds warm up the cleaner."""
    log_bytes = int(LOG_BYTES * effort.scale)
    rates = [
        Case(
            group=f"compaction, {log_bytes / MEGA:.0f} MB of {size_name(record_bytes)} records",
            variant="",
            metrics=(RATE, SECONDS, CPU),
            setup=Setup(settings=SETTINGS),
            prepare=partial(_warm_up, log_bytes // 4, record_bytes),
            prepare_s=4.0 + 5.0 * effort.scale,
            turn=partial(_rate_turn, log_bytes, record_bytes),
            turn_s=5.0 + 12.0 * effort.scale,
        )
        for record_bytes in RECORD_SIZES
    ]
    latency = Case(
        group=f"compaction of {LATENCY_LOGS} logs, produce at {LATENCY_PER_SECOND:,} records/s",
        variant="",
        metrics=(P99, P99_GROWTH),
        setup=Setup(settings=SETTINGS),
        prepare=lambda brokers: brokers.create_topic(LATENCY_TOPIC, 1),
        prepare_s=0.5,
        turn=partial(_latency_turn, log_bytes),
        turn_s=10.0 + 40.0 * effort.scale,
        clean_up=lambda brokers: brokers.delete_topic(LATENCY_TOPIC),
    )
    return [*rates, latency]


def _warm_up(log_bytes: int, record_bytes: int, brokers: Brokers) -> None:
    _rate_turn(log_bytes, record_bytes, brokers)


def _rate_turn(log_bytes: int, record_bytes: int, brokers: Brokers) -> Findings:
    _fill(brokers, TOPIC, log_bytes, record_bytes)
    time.sleep(SETTLE_S)
    [folder] = brokers.partition_folders(TOPIC)
    # The active segment is not compacted.
    *sealed, active = sorted(folder.glob("*.log"))
    sealed_bytes = sum(path.stat().st_size for path in sealed)
    cpu_before, started = brokers.cpu_seconds(), time.perf_counter()
    brokers.alter_topic(TOPIC, {"cleanup.policy": "compact"})
    _wait_until_compacted(brokers, TOPIC, int(active.stem))
    seconds = time.perf_counter() - started
    cpu_s = brokers.cpu_seconds() - cpu_before
    brokers.delete_topic(TOPIC)
    return {"megabytes_per_s": sealed_bytes / MEGA / seconds, "seconds": seconds, "cpu_s": cpu_s}


def _latency_turn(log_bytes: int, brokers: Brokers) -> Findings:
    """Compact several logs one after the other while a producer has a fixed rate."""
    topics = [f"{TOPIC}-{number}" for number in range(LATENCY_LOGS)]
    for topic in topics:
        _fill(brokers, topic, log_bytes, RECORD_SIZES[0])
    # Otherwise the pages of these logs would be written to the disk during the first measurement.
    os.sync()
    time.sleep(SETTLE_S)
    before_ms = _p99_ms(brokers)
    with ThreadPoolExecutor(1) as pool:
        measuring = pool.submit(_p99_ms, brokers)
        for topic in topics:
            brokers.alter_topic(topic, {"cleanup.policy": "compact"})
        during_ms = measuring.result()
    for topic in topics:
        brokers.delete_topic(topic)
    return {"p99_ms": during_ms, "p99_growth": during_ms / before_ms}


def _p99_ms(brokers: Brokers) -> float:
    findings = run_load(
        "fixed_rate",
        servers=brokers.addresses,
        topic=LATENCY_TOPIC,
        message_bytes=RECORD_SIZES[0],
        per_second=LATENCY_PER_SECOND,
        seconds=LATENCY_S,
    )
    return float(findings["produce_p99_ms"])


def _fill(brokers: Brokers, topic: str, log_bytes: int, record_bytes: int) -> None:
    segment_bytes = max(MEBIBYTE, log_bytes // SEGMENTS)
    configs = {"cleanup.policy": "delete", "min.cleanable.dirty.ratio": "0.01"}
    brokers.create_topic(topic, 1, {**configs, "segment.bytes": str(segment_bytes)})
    run_load(
        "keyed",
        servers=brokers.addresses,
        topic=topic,
        records=log_bytes // (record_bytes + RECORD_OVERHEAD_BYTES),
        record_bytes=record_bytes,
        batch_bytes=BATCH_BYTES,
    )


def _wait_until_compacted(brokers: Brokers, topic: str, end_offset: int) -> None:
    """Wait until the cleaner's checkpoint, which both engines write, has reached the active segment."""
    deadline = time.monotonic() + COMPACTED_WITHIN_S
    path = brokers.data(0) / CHECKPOINT
    while checkpoint_offset(path, topic) < end_offset:
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
    what="263 MB of 100 B and of 1 KiB records, half of them superseded, log.cleaner.backoff.ms=200: from "
    "the change of cleanup.policy until the cleaner's checkpoint has reached the active segment; p99 of "
    "produce during the compaction of three such logs",
    cases=compaction_cases,
)
