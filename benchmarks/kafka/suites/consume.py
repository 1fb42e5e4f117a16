"""Throughput of reading a topic from its start, on one node."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Final

from benchmarks.kafka import perf_tools
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
    size_name,
)
from benchmarks.kafka.suites.librdkafka_loads import TopicShape, fill
from benchmarks.kafka.suites.produce import BATCH_BYTES, MESSAGE_BYTES, PARTITIONS
from benchmarks.processes import run_load

TOPIC: Final = "consumed"
TOPIC_BYTES: Final = {100: 100 * MEBIBYTE, KIBIBYTE: 400 * MEBIBYTE}
"""For each record size: the client reads some 2 million records or 1 GB in a second."""
TOOL_SHAPE: Final = (6, 64 * KIBIBYTE)

LIBRDKAFKA: Final = Metric(key="librdkafka", name="throughput", unit="MB/s", better=Better.HIGHER, target=1.0)
CPU: Final = Metric(key="cpu_us_per_mib", name="broker CPU per MiB", unit="us", better=Better.LOWER)
TOOL: Final = Metric(
    key="tool", name="throughput of ConsumerPerformance", unit="MB/s", better=Better.HIGHER, target=1.0
)


def consume_cases(effort: Effort) -> list[Case]:
    """Return one case for each shape of a topic."""
    sizes = (KIBIBYTE,) if effort.is_short else MESSAGE_BYTES
    batches = BATCH_BYTES[1:2] if effort.is_short else BATCH_BYTES
    return [_case(*shape, effort) for shape in product(sizes, PARTITIONS, batches)]


def _case(message_bytes: int, partitions: int, batch_bytes: int, effort: Effort) -> Case:
    topic_bytes = int(TOPIC_BYTES[message_bytes] * effort.scale)
    has_tool = (partitions, batch_bytes) == TOOL_SHAPE
    name = "1 partition" if partitions == 1 else f"{partitions} partitions"
    return Case(
        group=f"consume {size_name(message_bytes)}, {name}",
        variant=f"{size_name(batch_bytes)} batches",
        metrics=(LIBRDKAFKA, CPU, TOOL) if has_tool else (LIBRDKAFKA, CPU),
        setup=Setup(),
        prepare=partial(fill, TopicShape(TOPIC, partitions, message_bytes, batch_bytes), topic_bytes),
        prepare_s=0.8 + 2.0 * effort.scale,
        turn=partial(_turn, message_bytes, topic_bytes // message_bytes // partitions * partitions, has_tool),
        turn_s=0.9 + 0.6 * effort.scale + (3.0 if has_tool else 0.0),
        clean_up=lambda brokers: brokers.delete_topic(TOPIC),
    )


def _turn(message_bytes: int, records: int, has_tool: bool, brokers: Brokers) -> Findings:
    cpu_before = brokers.cpu_seconds()
    options = {"servers": brokers.addresses, "topics": [TOPIC], "message_bytes": message_bytes}
    read = run_load("librdkafka", kind="consume", **options)
    cpu_s = brokers.cpu_seconds() - cpu_before
    found = {
        "librdkafka": read["bytes_per_s"] / MEGA,
        "cpu_us_per_mib": cpu_s / (records * message_bytes / MEBIBYTE) * 1e6,
    }
    if has_tool:
        found["tool"] = perf_tools.consume(brokers, TOPIC, records).records_per_s * message_bytes / MEGA
    return found


CONSUME: Final = Suite(
    name="consume",
    what="read a topic from its start with librdkafka (the shapes of `produce`) and with "
    "ConsumerPerformance; broker CPU",
    cases=consume_cases,
)
