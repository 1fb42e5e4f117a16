"""Resident memory and CPU of an idle node, and its memory during and after load."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import KIBIBYTE, MEBIBYTE, Better, Case, Effort, Findings, Metric, Suite, TargetOf
from benchmarks.kafka.suites.connections import one_record_per_request
from benchmarks.processes import run_load

TOPIC: Final = "remembered"
PARTITIONS: Final = 6
CONNECTIONS: Final = 200
SETTLE_S: Final = 2.0
IDLE_S: Final = 5.0
IDLE_AT_MOST_MIB: Final = 60.0
LOADED_AT_MOST_MIB: Final = 150.0


def memory_cases(effort: Effort) -> list[Case]:
    """Return the one case; memory differs little between turns."""
    seconds = max(effort.seconds, 1.0)
    return [
        Case(
            group="1 node",
            variant="",
            metrics=(
                _mebibytes("idle", "resident memory, idle", IDLE_AT_MOST_MIB),
                Metric(key="idle_cpu", name="CPU, idle", unit="% of a core", better=Better.LOWER),
                _mebibytes("peak", "resident memory, most under load", LOADED_AT_MOST_MIB),
                _mebibytes("after", "resident memory, after load", LOADED_AT_MOST_MIB),
            ),
            setup=Setup(per_turn=True),
            turn=partial(_turn, seconds),
            turn_s=13.0 + 4 * seconds,
            rounds_max=1,
        )
    ]


def _mebibytes(key: str, name: str, target: float) -> Metric:
    return Metric(
        key=key, name=name, unit="MiB", better=Better.LOWER, target=target, target_of=TargetOf.TIDELOG
    )


def _turn(seconds: float, brokers: Brokers) -> Findings:
    brokers.start()
    time.sleep(SETTLE_S)
    cpu_before = brokers.cpu_seconds()
    time.sleep(IDLE_S)
    idle = {
        "idle": brokers.resident_bytes() / MEBIBYTE,
        "idle_cpu": (brokers.cpu_seconds() - cpu_before) / IDLE_S * 100,
    }
    brokers.create_topic(TOPIC, PARTITIONS)
    options = {"servers": brokers.addresses, "message_bytes": KIBIBYTE}
    for batch_bytes in (16 * KIBIBYTE, MEBIBYTE):
        run_load(
            "librdkafka", kind="produce", topic=TOPIC, batch_bytes=batch_bytes, seconds=seconds, **options
        )
    one_record_per_request(TOPIC, PARTITIONS, CONNECTIONS, seconds, brokers)
    run_load("librdkafka", kind="consume", topics=[TOPIC], **options)
    loaded = {
        "peak": brokers.peak_resident_bytes() / MEBIBYTE,
        "after": brokers.resident_bytes() / MEBIBYTE,
    }
    return {**idle, **loaded}


MEMORY: Final = Suite(
    name="memory",
    what="resident memory and CPU of an idle node, its peak resident memory while it serves producers, a "
    "consumer and 200 connections, and its resident memory after that",
    cases=memory_cases,
)
