"""The comparison with Apache Kafka: parsing, order of runs, ratios, JSON, table, document, CPU time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.kafka import document, perf_tools
from benchmarks.kafka.brokers import Setup
from benchmarks.kafka.case import QUICK, STANDARD, Better, Case, Effort, Growth, Metric, Suite, TargetOf
from benchmarks.kafka.results import Report, Row, latest
from benchmarks.kafka.runner import expected_seconds, plan_steps, turn_order
from benchmarks.kafka.suites import SUITES
from benchmarks.kafka.suites.compaction import checkpoint_offset
from benchmarks.kafka.table import show, values_text
from benchmarks.loads.keyed import record_keys
from benchmarks.processes import BenchmarkError, tree_cpu_seconds
from tests.reference_software.kafka_programs import Engine

PRODUCED = """\
[2026-11-22 21:37:08,490] WARN something (org.apache.kafka.Some)
4998 records sent, 999.6 records/sec (0.10 MB/sec), 9.1 ms avg latency, 99.0 ms max latency.
30000 records sent, 9842.519685 records/sec (0.94 MB/sec), 156.01 ms avg latency, 1063.00 ms max latency, \
80 ms 50th, 415 ms 95th, 454 ms 99th, 492 ms 99.9th.
20000 steady state records sent, 9689.922481 records/sec (0.92 MB/sec), 52.01 ms avg latency, \
338.00 ms max latency, 22 ms 50th, 203 ms 95th, 243 ms 99th, 336 ms 99.9th.
"""
CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
WARNING: something, else
2026-11-22 21:37:16:565, 2026-11-22 21:37:19:101, \
4.7684, 1.8803, 50000, 19716.0883, 2022, 514, 9.2770, 97276.2646
"""
END_TO_END = "0\t139.567957\nAvg latency: 3.0603 ms\nPercentiles: 50th = 1, 99th = 26, 99.9th = 139\n"


def row(
    kafka: tuple[float, ...] = (100.0,),
    tidelog: tuple[float, ...] = (250.0,),
    *,
    better: Better = Better.HIGHER,
    target: float | None = 2.0,
    target_of: TargetOf = TargetOf.RATIO,
    variant: str = "16 KiB",
    noise: float = 1.0,
) -> Row:
    return Row(
        suite="produce",
        case=f"produce 1 KiB, {variant}",
        line="produce 1 KiB: throughput",
        variant=variant,
        unit="MB/s",
        better=better,
        kafka=kafka,
        tidelog=tidelog,
        target=target,
        target_of=target_of,
        noise=noise,
    )


def case(variant: str = "few") -> Case:
    metrics = (
        Metric(key="rate", name="requests", unit="1/s", better=Better.HIGHER, target=1.0),
        Metric(key="p50", name="latency", variant="p50", unit="ms", better=Better.LOWER),
        Metric(key="p99", name="latency", variant="p99", unit="ms", better=Better.LOWER),
    )
    return Case(
        group="requests", variant=variant, metrics=metrics, setup=Setup(), turn=lambda _: {}, turn_s=2.0
    )


def report(path: Path, *rows: Row) -> Report:
    effort = {"rounds": 2, "is_short": True}
    machine = {
        "measured_at": "2026-11-22T21:00:00+00:00",
        "processor": "EPYC",
        "cores": 2,
        "memory_gib": 23,
        "system": "Linux 6",
        "python": "3.11.7",
        "java": "openjdk 17",
        "commit": "abc",
        "effort": effort,
    }
    return Report(path, machine, list(rows), seconds=600.0)


def test_the_steady_state_of_producer_performance_is_read() -> None:
    result = perf_tools.parse_produced(PRODUCED)
    assert (result.records_per_s, result.average_ms) == (9689.922481, 52.01)
    assert (result.p50_ms, result.p99_ms, result.p999_ms) == (22, 243, 336)


def test_the_summary_without_warm_up_is_read() -> None:
    whole = "".join(line for line in PRODUCED.splitlines(keepends=True) if "steady" not in line)
    assert perf_tools.parse_produced(whole).p999_ms == 492


def test_the_fetch_rate_excludes_the_rebalance_time() -> None:
    result = perf_tools.parse_consumed(CONSUMED)
    assert (result.records, result.records_per_s) == (50_000, 97276.2646)
    assert result.bytes_per_s == pytest.approx(9.2770 * 1024 * 1024)


def test_the_average_of_end_to_end_latency_is_read() -> None:
    assert perf_tools.parse_end_to_end_ms(END_TO_END) == 3.0603


@pytest.mark.parametrize(
    "parse", [perf_tools.parse_produced, perf_tools.parse_consumed, perf_tools.parse_end_to_end_ms]
)
def test_output_without_a_summary_is_an_error_that_shows_it(parse: Callable[[str], object]) -> None:
    with pytest.raises(BenchmarkError, match="no broker"):
        parse("there is no broker\n")


def test_engines_run_in_the_order_a_b_b_a() -> None:
    a, b = Engine.KAFKA, Engine.TIDELOG
    assert list(turn_order(3)) == [a, b, b, a, a, b]


def test_the_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    # The second round was disturbed for both engines.
    assert row((100.0, 10.0, 100.0), (250.0, 25.0, 260.0)).ratio == 2.5
    assert row((0.0,), (1.0,)).ratio is None


def test_a_target_limits_the_ratio_or_the_absolute_figure() -> None:
    assert row().is_met is True
    assert row(tidelog=(199.0,)).is_met is False
    lower = row((10.0,), (9.0,), better=Better.LOWER, target=0.8)
    assert lower.is_met is False
    own = row((2.0,), (0.4,), better=Better.LOWER, target=0.5, target_of=TargetOf.TIDELOG)
    assert own.is_met is True
    assert row(target=None).is_met is None


def test_a_report_is_the_same_after_it_was_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "kafka-20261122T210000.json"
    saved = report(path, row(), row((1.0,), (0.5,), better=Better.LOWER, target_of=TargetOf.TIDELOG))
    saved.failures["produce: other"] = "BenchmarkError: no broker"
    saved.save()
    assert Report.load(path) == saved
    stored = json.loads(path.read_text())["rows"][0]
    assert (stored["ratio"], stored["is_met"], stored["better"]) == (2.5, True, "higher")


def test_the_newest_report_is_found_by_its_name(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
    for name in ("kafka-20261122T210000.json", "kafka-20261123T010000.json", "bench.json"):
        (tmp_path / name).write_text("{}")
    newest = latest(tmp_path)
    assert newest is not None and newest.name == "kafka-20261123T010000.json"


def test_a_continued_run_skips_completed_cases(tmp_path: Path) -> None:
    suite = Suite(name="connections", what="", cases=lambda _: [case("few"), case("many")])
    begun = report(tmp_path / "kafka-1.json")
    whole = expected_seconds(plan_steps([suite], QUICK, begun), QUICK)
    findings = {engine: [{"rate": 2.0, "p50": 1.0, "p99": 3.0}] for engine in Engine}
    rows = begun.add("connections", case("few"), findings, 1.0)
    assert [(each.line, each.variant) for each in rows] == [
        ("requests: requests", "few"),
        ("requests, few: latency", "p50"),
        ("requests, few: latency", "p99"),
    ]
    steps = plan_steps([suite], QUICK, begun)
    assert [step.case.variant for step in steps] == ["many"]
    # Brokers are started and warmed up once for both.
    assert 0 < whole - expected_seconds(steps, QUICK) < 2 * case().turn_s + 1


def test_growth_is_the_ratio_of_the_last_and_first_variant(tmp_path: Path) -> None:
    growth = Growth(line="requests: requests", name="most to fewest", target=1.2)
    begun = report(tmp_path / "kafka-1.json")
    values: Mapping[str, tuple[float, float]] = {"few": (10.0, 10.0), "many": (20.0, 11.0)}
    for variant, (kafka, tidelog) in values.items():
        findings = {
            Engine.KAFKA: [{"rate": kafka, "p50": 1.0, "p99": 1.0}],
            Engine.TIDELOG: [{"rate": tidelog, "p50": 1.0, "p99": 1.0}],
        }
        begun.add("connections", case(variant), findings, 1.0)
    [added] = begun.add_growth("connections", growth)
    assert (added.kafka, added.tidelog, added.target_of) == ((2.0,), (1.1,), TargetOf.TIDELOG)
    assert begun.add_growth("connections", growth) == []


def test_the_table_shows_medians_extremes_ratios_and_failures(tmp_path: Path) -> None:
    console = Console(width=150, record=True, file=(tmp_path / "out").open("w"))
    shown = report(tmp_path / "kafka-1.json", row((90.0, 110.0), (250.0, 270.0), noise=2.0))
    shown.failures["latency: other"] = "BenchmarkError: no broker"
    show(console, shown)
    text = console.export_text()
    for part in ("100 (90-110) MB/s", "260 (250-270) MB/s", "2.62", "≥ 2 x met", "~", "no broker"):
        assert part in text, part
    assert values_text((0.5,)) == "0.5"


def test_variants_of_a_case_share_a_row(tmp_path: Path) -> None:
    rows = (row(), row((100.0,), (150.0,), variant="64 KiB"))
    lines = document.markdown(report(tmp_path / "kafka-1.json", *rows)).splitlines()
    assert lines[-2:] == [
        "| **produce** | | | | |",
        "| produce 1 KiB: throughput; 16 KiB / 64 KiB | 100 / 100 MB/s | 250 / 150 MB/s | 2.50 / 1.50 "
        "| ≥ 2 x: met / missed |",
    ]
    assert "10 minutes, short form" in lines[0] and "EPYC" in lines[0]


def test_only_text_between_the_markers_changes() -> None:
    text = "before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n"
    changed = document.with_section(text, "x", "new\n")
    assert changed == text.replace("old", "new")
    assert document.with_section(changed, "x", "new\n") == changed
    with pytest.raises(ValueError, match="y: begin"):
        document.with_section(text, "y", "new\n")


def test_the_suites_and_their_list_in_the_document_agree() -> None:
    text = document.DOCUMENT.read_text()
    listed = document.with_section(text, document.SUITE_LIST, document.suite_list(SUITES.values()))
    assert listed == text, "run python -m benchmarks.kafka --write-docs"
    assert f"<!-- {document.TABLE}: begin -->" in text


@pytest.mark.parametrize("effort", [QUICK, STANDARD])
def test_case_names_are_unique_and_each_case_has_metrics(effort: Effort) -> None:
    for suite in SUITES.values():
        cases = suite.cases(effort)
        assert all(each.metrics and each.turn_s > 0 for each in cases)
        assert not [name for name, count in Counter(each.name for each in cases).items() if count > 1]
        lines = {f"{each.group}: {metric.name}" for each in cases for metric in each.metrics}
        assert {growth.line for growth in suite.growths} <= lines


def test_a_new_report_describes_its_machine() -> None:
    report = Report.new(QUICK, datetime(2026, 11, 22, 21, 0, tzinfo=UTC))
    assert report.path.name == "kafka-20261122T210000.json"
    assert report.machine["effort"]["rounds"] == QUICK.rounds
    assert report.machine["cores"] and report.machine["python"]


def test_process_cpu_includes_threads_and_ended_children() -> None:
    program = (
        "import subprocess, sys, threading, time\n"
        "def use_cpu():\n"
        "    while time.thread_time() < 0.1: pass\n"
        "thread = threading.Thread(target=use_cpu); thread.start(); thread.join()\n"
        "subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.1: pass'])\n"
        "print('done', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"done\n"
        assert tree_cpu_seconds(process.pid) >= 0.18
        process.stdin.close()


def test_a_cleaner_checkpoint_is_read_and_may_be_absent(tmp_path: Path) -> None:
    path = tmp_path / "cleaner-offset-checkpoint"
    assert checkpoint_offset(path, "compacted") == 0
    path.write_text("0\n2\nother 0 5\ncompacted 0 1234\n")
    assert checkpoint_offset(path, "compacted") == 1234


def test_the_keyed_load_supersedes_exactly_half_of_its_records() -> None:
    keys = Counter(record_keys(2_000))
    assert len(keys) == 1_000 and set(keys.values()) == {2}
