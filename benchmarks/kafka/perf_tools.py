"""Apache Kafka's own performance tools as load generators, and the parsers of their output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.kafka.brokers import Brokers
from benchmarks.processes import BenchmarkError

PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER: Final = "org.apache.kafka.tools.ConsumerPerformance"
END_TO_END: Final = "org.apache.kafka.tools.EndToEndLatency"
TOOL_WITHIN_S: Final = 180.0

_PRODUCED: Final = re.compile(
    r"(?P<records>\d+) (?:steady state )?records sent, "
    r"(?P<rate>[\d.]+) records/sec \((?P<megabytes>[\d.]+) MB/sec\), "
    r"(?P<average>[\d.]+) ms avg latency, (?P<most>[\d.]+) ms max latency, (?P<p50>\d+) ms 50th, "
    r"(?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th, (?P<p999>\d+) ms 99\.9th"
)
_AVERAGE: Final = re.compile(r"Avg latency: ([\d.]+) ms")
_PERCENTILES: Final = re.compile(r"Percentiles: 50th = (\d+), 99th = (\d+), 99\.9th = (\d+)")
_MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProducerSummary:
    """The last summary of ProducerPerformance; after warm-up records, that of the steady state."""

    records_per_s: float
    average_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


@dataclass(frozen=True, slots=True)
class ConsumerSummary:
    """The summary of ConsumerPerformance; the time of joining the group is not part of it."""

    records: int
    records_per_s: float
    bytes_per_s: float


def parse_produced(output: str) -> ProducerSummary:
    """Parse the output of ProducerPerformance. Raise BenchmarkError if it has no summary."""
    found = list(_PRODUCED.finditer(output))
    if not found:
        raise BenchmarkError(f"ProducerPerformance printed no summary: {output[-2000:]}")
    last = found[-1]
    return ProducerSummary(
        *(float(last[name]) for name in ("rate", "average", "p50", "p99", "p999")),
    )


def parse_consumed(output: str) -> ConsumerSummary:
    """Parse the output of ConsumerPerformance. Raise BenchmarkError if it has no summary."""
    rows = [[field.strip() for field in line.split(",")] for line in output.splitlines()]
    header = next((row for row in rows if row[0] == "start.time"), None)
    last = next((row for row in reversed(rows) if header is not None and len(row) == len(header)), None)
    if header is None or last is None or last is header:
        raise BenchmarkError(f"ConsumerPerformance printed no summary: {output[-2000:]}")
    values = dict(zip(header, last, strict=True))
    return ConsumerSummary(
        int(values["data.consumed.in.nMsg"]),
        float(values["fetch.nMsg.sec"]),
        float(values["fetch.MB.sec"]) * _MEBIBYTE,
    )


def parse_end_to_end_ms(output: str) -> float:
    """Parse the average latency from the output of EndToEndLatency; its percentiles are whole milliseconds.

    Raise BenchmarkError if it has no average.
    """
    found = _AVERAGE.search(output)
    if found is None or _PERCENTILES.search(output) is None:
        raise BenchmarkError(f"EndToEndLatency printed no summary: {output[-2000:]}")
    return float(found[1])


def produce(
    brokers: Brokers,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    records_per_s: int = -1,
    warm_up_records: int = 0,
    properties: Mapping[str, str] | None = None,
) -> ProducerSummary:
    """Run ProducerPerformance; without a rate, at maximum speed."""
    named = {"acks": "all", **(properties or {})}
    arguments = ["--bootstrap-server", brokers.addresses, "--topic", topic, "--num-records", str(records)]
    arguments += ["--record-size", str(record_bytes), "--throughput", str(records_per_s)]
    if warm_up_records:
        arguments += ["--warmup-records", str(warm_up_records)]
    arguments += ["--command-property", *(f"{key}={text}" for key, text in named.items())]
    return parse_produced(_run(brokers, PRODUCER, *arguments))


def consume(brokers: Brokers, topic: str, records: int) -> ConsumerSummary:
    """Run ConsumerPerformance from the start of a topic. Raise BenchmarkError if records are missing."""
    arguments = ["--bootstrap-server", brokers.addresses, "--topic", topic, "--num-records", str(records)]
    consumed = parse_consumed(_run(brokers, CONSUMER, *arguments))
    if consumed.records < records:
        raise BenchmarkError(f"ConsumerPerformance read {consumed.records} of {records} records")
    return consumed


def end_to_end_ms(brokers: Brokers, topic: str, records: int, record_bytes: int) -> float:
    """Run EndToEndLatency with one record after the other; return the average."""
    arguments = (brokers.addresses, topic, str(records), "all", str(record_bytes))
    return parse_end_to_end_ms(_run(brokers, END_TO_END, *arguments))


def _run(brokers: Brokers, main_class: str, *arguments: str) -> str:
    done = brokers.programs.tool(main_class, *arguments, timeout_s=TOOL_WITHIN_S)
    if done.returncode != 0:
        raise BenchmarkError(
            f"{main_class} ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
        )
    return done.stdout
