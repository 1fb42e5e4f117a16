"""Compare Apache Kafka with Tidelog: `python -m benchmarks.kafka [--quick] [--rounds N] [SUITE ...]`.

Both engines run on this machine with the same configuration. They are measured alternately: A B B A.
The figures are written to benchmarks/results/kafka-<time>.json after each case; `--resume` continues the
newest of these files, and `--write-docs` puts its table into docs/performance.md. Java 17 and Kafka's jars
are needed: `make bench-kafka` gets them from Maven Central.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from benchmarks.kafka import document
from benchmarks.kafka.case import QUICK, STANDARD, Effort, Suite
from benchmarks.kafka.results import Report, Row, latest
from benchmarks.kafka.runner import Runner, expected_seconds, plan_steps
from benchmarks.kafka.suites import SUITES
from benchmarks.kafka.table import ratio_text, show, values_text

SPEED_ESTIMATE_S = 600.0
FILE_COLUMNS = 150
"""The width of the table where the output is no terminal."""


def main() -> None:
    """Run the suites that the arguments select."""
    parser = _parser()
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else FILE_COLUMNS)
    unknown = [name for name in options.suites if name not in SUITES]
    if unknown:
        parser.error(f"unknown suite {unknown[0]!r}; allowed: {', '.join(SUITES)}")
    effort = _effort(options)
    suites = [suite for name, suite in SUITES.items() if not options.suites or name in options.suites]
    if options.list:
        _list(console, suites, effort)
        return
    report = _report(parser, options, effort)
    if not (options.write_docs or options.show):
        jars = os.environ.get("TIDELOG_KAFKA_JARS")
        if not jars:
            parser.error(
                "TIDELOG_KAFKA_JARS does not name the folder with Kafka's jars; use make bench-kafka"
            )
        _run(console, Path(jars), effort, report, suites)
    show(console, report)
    console.print(f"figures: {report.path}")
    if options.write_docs:
        document.write(report, SUITES.values())
        console.print(f"table: {document.DOCUMENT}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer shapes and short turns: a few minutes")
    parser.add_argument("--rounds", type=int, help="number of turns of each engine in every measurement")
    parser.add_argument("--seconds", type=float, help="length of a throughput turn")
    parser.add_argument("--resume", action="store_true", help="continue the newest report file")
    parser.add_argument("--list", action="store_true", help="list the suites and their durations")
    parser.add_argument("--show", action="store_true", help="show the newest report; measure nothing")
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help="write the newest report into docs/performance.md; measure nothing",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all by default")
    return parser


def _effort(options: argparse.Namespace) -> Effort:
    effort = QUICK if options.quick else STANDARD
    if options.rounds is not None:
        effort = replace(effort, rounds=options.rounds)
    return effort if options.seconds is None else replace(effort, seconds=options.seconds)


def _report(parser: argparse.ArgumentParser, options: argparse.Namespace, effort: Effort) -> Report:
    if not (options.resume or options.show or options.write_docs):
        return Report.new(effort, datetime.now(UTC))
    path = latest()
    if path is None:
        parser.error("there is no report to continue or to show in benchmarks/results")
    return Report.load(path)


def _run(console: Console, jars: Path, effort: Effort, report: Report, suites: Sequence[Suite]) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(),
    )
    _print_omitted(console, suites, effort)
    # A run that is ended must not leave brokers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    minutes = expected_seconds(plan_steps(suites, effort, report), effort) / 60
    console.print(f"about {minutes:.0f} minutes on a quiet machine; the figures are written to {report.path}")
    with Progress(*columns, console=console, speed_estimate_period=SPEED_ESTIMATE_S) as progress:
        Runner(jars, effort, report, progress).run(suites, lambda rows: _print_rows(progress.console, rows))


def _print_rows(console: Console, rows: Sequence[Row]) -> None:
    for row in rows:
        name = f"{row.line}, {row.variant}" if row.variant else row.line
        values = f"{values_text(row.kafka)} | {values_text(row.tidelog)} {row.unit}"
        console.print(f"{row.suite}: {name}: {values} | {ratio_text(row)} x", highlight=False)


def _print_omitted(console: Console, suites: Sequence[Suite], effort: Effort) -> None:
    """Print a line for each suite that has no cases on this machine."""
    for suite in suites:
        if not suite.cases(effort):
            console.print(f"{suite.name} is omitted: {suite.requirement}", highlight=False, soft_wrap=True)


def _list(console: Console, suites: Sequence[Suite], effort: Effort) -> None:
    _print_omitted(console, suites, effort)
    empty = Report(Path(), {})
    for suite in suites:
        minutes = expected_seconds(plan_steps([suite], effort, empty), effort) / 60
        console.print(f"[bold]{suite.name}[/bold] ({minutes:.1f} minutes): {suite.what}")
    minutes = expected_seconds(plan_steps(suites, effort, empty), effort) / 60
    console.print(f"all suites, with shared brokers: {minutes:.0f} minutes")


if __name__ == "__main__":
    main()
