"""Latency of produce and of end-to-end delivery at fixed rates, on one node."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.kafka import perf_tools
from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import Better, Case, Effort, Findings, Metric, Suite
from benchmarks.processes import run_load

TOPIC: Final = "delayed"
PARTITIONS: Final = 6
MESSAGE_BYTES: Final = 100
RATES: Final = (500, 5_000)
END_TO_END_RECORDS: Final = 3_000
AT_MOST: Final = 0.8
PERCENTILES: Final = {"p50": "p50", "p99": "p99", "p999": "p99.9"}


def latency_cases(effort: Effort) -> list[Case]:
    """Return the cases of librdkafka, ProducerPerformance and EndToEndLatency."""
    rates = [rate_case(Setup(), rate, effort) for rate in RATES]
    return [*rates, _tool_case(RATES[-1], effort), _end_to_end_case(effort)]


def rate_case(setup: Setup, rate: int, effort: Effort) -> Case:
    """Return the case of librdkafka at one rate; also used with three nodes."""
    where = "" if setup.nodes == 1 else f", {setup.nodes} nodes, RF {setup.nodes}"
    return Case(
        group=f"latency at {rate:,} records/s{where}",
        variant="",
        metrics=(*_metrics("produce"), *_metrics("end_to_end")),
        setup=setup,
        prepare=lambda brokers: brokers.create_topic(TOPIC, PARTITIONS),
        prepare_s=0.3,
        turn=partial(_fixed_rate, rate, effort.rate_seconds),
        turn_s=effort.rate_seconds + 2.5,
        clean_up=lambda brokers: brokers.delete_topic(TOPIC),
    )


def _metrics(kind: str) -> tuple[Metric, ...]:
    name = kind.replace("_", "-")
    return tuple(
        Metric(
            key=f"{kind}_{key}_ms",
            name=name,
            variant=label,
            unit="ms",
            better=Better.LOWER,
            target=None if key == "p50" else AT_MOST,
        )
        for key, label in PERCENTILES.items()
    )


def _fixed_rate(rate: int, seconds: float, brokers: Brokers) -> Findings:
    return run_load(
        "fixed_rate",
        servers=brokers.addresses,
        topic=TOPIC,
        message_bytes=MESSAGE_BYTES,
        per_second=rate,
        seconds=seconds,
    )


def _tool_case(rate: int, effort: Effort) -> Case:
    return Case(
        group=f"latency at {rate:,} records/s, ProducerPerformance",
        variant="",
        metrics=_metrics("produce"),
        setup=Setup(),
        prepare=lambda brokers: brokers.create_topic(TOPIC, PARTITIONS),
        prepare_s=0.3,
        turn=partial(_tool, rate, effort.rate_seconds),
        turn_s=effort.rate_seconds + 3.5,
        clean_up=lambda brokers: brokers.delete_topic(TOPIC),
    )


def _tool(rate: int, seconds: float, brokers: Brokers) -> Findings:
    warm_up = 2 * rate
    produced = perf_tools.produce(
        brokers,
        TOPIC,
        records=warm_up + int(rate * seconds),
        record_bytes=MESSAGE_BYTES,
        records_per_s=rate,
        warm_up_records=warm_up,
    )
    return {
        "produce_p50_ms": produced.p50_ms,
        "produce_p99_ms": produced.p99_ms,
        "produce_p999_ms": produced.p999_ms,
    }


def _end_to_end_case(effort: Effort) -> Case:
    average = Metric(key="average_ms", name="average", unit="ms", better=Better.LOWER, target=AT_MOST)
    return Case(
        group="one record after the other, EndToEndLatency",
        variant="",
        metrics=(average,),
        setup=Setup(),
        prepare=lambda brokers: brokers.create_topic(TOPIC, 1),
        prepare_s=0.3,
        turn=partial(_end_to_end, int(END_TO_END_RECORDS * max(effort.scale, 0.2))),
        turn_s=4.0 if effort.is_short else 5.0,
        clean_up=lambda brokers: brokers.delete_topic(TOPIC),
    )


def _end_to_end(records: int, brokers: Brokers) -> Findings:
    return {"average_ms": perf_tools.end_to_end_ms(brokers, TOPIC, records, MESSAGE_BYTES)}


LATENCY: Final = Suite(
    name="latency",
    what="p50, p99 and p99.9 of produce (acks=all) and of end-to-end delivery at 500 and 5,000 records/s "
    "with librdkafka; produce at 5,000 records/s with ProducerPerformance; EndToEndLatency, "
    "one record after the other",
    cases=latency_cases,
)
