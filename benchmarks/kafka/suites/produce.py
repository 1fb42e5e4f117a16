"""Throughput of producing at maximum speed, on one node."""

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
from benchmarks.kafka.suites.librdkafka_loads import TopicShape, produce

TOPIC: Final = "produced"
MESSAGE_BYTES: Final = (100, KIBIBYTE)
PARTITIONS: Final = (1, 6)
BATCH_BYTES: Final = (16 * KIBIBYTE, 64 * KIBIBYTE, MEBIBYTE)
TOOL_BATCH_BYTES: Final = (16 * KIBIBYTE, 64 * KIBIBYTE)
TOOL_BYTES: Final = 300 * MEBIBYTE
THROUGHPUT: Final = Metric(
    key="megabytes_per_s", name="throughput", unit="MB/s", better=Better.HIGHER, target=2.0
)
CPU: Final = Metric(key="cpu_us_per_kib", name="broker CPU per KiB", unit="us", better=Better.LOWER)


def produce_cases(effort: Effort) -> list[Case]:
    """Return the cases of librdkafka, then those of ProducerPerformance."""
    sizes = (KIBIBYTE,) if effort.is_short else MESSAGE_BYTES
    shapes = product(sizes, PARTITIONS, BATCH_BYTES[:1] if effort.is_short else BATCH_BYTES)
    cases = [librdkafka_case(Setup(), *shape, effort) for shape in shapes]
    return [*cases, *(_tool_case(batch_bytes, effort) for batch_bytes in TOOL_BATCH_BYTES)]


def librdkafka_case(
    setup: Setup, message_bytes: int, partitions: int, batch_bytes: int, effort: Effort
) -> Case:
    """Return the case of one record size, number of partitions and batch size; also used with three nodes."""
    where = "" if setup.nodes == 1 else f", {setup.nodes} nodes, RF {setup.nodes}"
    return Case(
        group=f"produce {size_name(message_bytes)}, {_partitions(partitions)}{where}",
        variant=f"{size_name(batch_bytes)} batches",
        metrics=(THROUGHPUT, CPU),
        setup=setup,
        turn=partial(_librdkafka, message_bytes, partitions, batch_bytes, effort.seconds),
        turn_s=effort.seconds + 1.2,
    )


def _librdkafka(
    message_bytes: int, partitions: int, batch_bytes: int, seconds: float, brokers: Brokers
) -> Findings:
    produced = produce(TopicShape(TOPIC, partitions, message_bytes, batch_bytes), seconds, brokers)
    kibibytes = produced.size_bytes / KIBIBYTE
    return {
        "megabytes_per_s": produced.megabytes_per_s,
        "cpu_us_per_kib": produced.cpu_s / kibibytes * 1e6,
    }


def _tool_case(batch_bytes: int, effort: Effort) -> Case:
    return Case(
        group="produce 1 KiB, 6 partitions, ProducerPerformance",
        variant=f"{size_name(batch_bytes)} batches",
        metrics=(THROUGHPUT,),
        setup=Setup(),
        turn=partial(_tool, batch_bytes, int(TOOL_BYTES * effort.scale) // KIBIBYTE),
        turn_s=2.5 + 4.0 * effort.scale,
    )


def _tool(batch_bytes: int, records: int, brokers: Brokers) -> Findings:
    brokers.create_topic(TOPIC, 6)
    produced = perf_tools.produce(
        brokers,
        TOPIC,
        records=records,
        record_bytes=KIBIBYTE,
        warm_up_records=records // 3,
        properties={"batch.size": str(batch_bytes)},
    )
    brokers.delete_topic(TOPIC)
    return {"megabytes_per_s": produced.records_per_s * KIBIBYTE / MEGA}


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


PRODUCE: Final = Suite(
    name="produce",
    what="produce at maximum speed with librdkafka (100 B and 1 KiB records, batches of 16 KiB, 64 KiB and "
    "1 MiB, 1 and 6 partitions, acks=all) and with ProducerPerformance; broker CPU",
    cases=produce_cases,
)
