"""The comparison as a table on the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table

from benchmarks.kafka.case import Better, TargetOf
from benchmarks.kafka.noise import NOISY_FROM
from benchmarks.kafka.results import Report, Row

_COLUMNS: Final[tuple[tuple[str, JustifyMethod], ...]] = (
    ("figure", "left"),
    ("Apache Kafka", "right"),
    ("Tidelog", "right"),
    ("ratio", "right"),
    ("target", "left"),
)


def show(console: Console, report: Report) -> None:
    """Print all rows: medians, with the smallest and the largest value of the rounds."""
    table = Table(title="Apache Kafka compared with Tidelog", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading, justify in _COLUMNS:
        table.add_column(heading, justify=justify, no_wrap=heading != "figure")
    suite = ""
    for row in report.rows:
        if row.suite != suite:
            suite = row.suite
            table.add_row(f"[bold]{suite}")
        table.add_row(
            f"  {row.line}{f', {row.variant}' if row.variant else ''}{' [yellow]~' if is_noisy(row) else ''}",
            f"{values_text(row.kafka)} {row.unit}",
            f"{values_text(row.tidelog)} {row.unit}",
            ratio_text(row),
            _target(row),
        )
    console.print(table)
    if any(is_noisy(row) for row in report.rows):
        console.print(
            f"[yellow]~[/yellow] measured while fixed work took {NOISY_FROM:g} times as long or longer"
        )
    for name, why in report.failures.items():
        console.print(f"[red]failed:[/red] {name}: {why[:300]}")


def is_noisy(row: Row) -> bool:
    """Return whether other load on the machine disturbed the measurement."""
    return row.noise >= NOISY_FROM


def values_text(values: Sequence[float]) -> str:
    """Return the median, and the extremes in brackets if they differ from it."""
    median = number_text(statistics.median(values))
    least, most = number_text(min(values)), number_text(max(values))
    return median if least == most else f"{median} ({least}-{most})"


def number_text(value: float) -> str:
    """Return a number with three significant digits, or without decimals from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio_text(row: Row) -> str:
    """Return the ratio with two decimals; a dash without a ratio."""
    return "-" if row.ratio is None else f"{row.ratio:.2f}"


def target_text(row: Row) -> str:
    """Return the bound, as a ratio or in the row's unit; empty without a target."""
    if row.target is None:
        return ""
    sign = "≥" if row.better is Better.HIGHER else "≤"
    unit = "x" if row.target_of is TargetOf.RATIO else row.unit
    return f"{sign} {row.target:g} {unit}"


def _target(row: Row) -> str:
    judgement = {True: " [green]met", False: " [red]missed", None: ""}[row.is_met]
    return target_text(row) + judgement
