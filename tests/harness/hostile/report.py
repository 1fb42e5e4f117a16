"""The rows as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.harness.hostile.attack import MEBIBYTE
from tests.harness.hostile.report_rows import (
    BLOCKED_MS_MAX,
    P99_FACTOR_MAX,
    P99_FLOOR_MS,
    RELEASED_S_MAX,
    Row,
    p99_goal_ms,
)
from tests.harness.hostile.run import Effort
from tests.harness.hostile.target import ROOT

RESULTS: Final = ROOT / "benchmarks" / "results" / "hostile.json"
WIDTH_OF_FILES: Final = 160

_COLUMNS: Final = (
    "attack",
    "item",
    "blocked ms",
    "stall ms",
    "p50 ms",
    "p99 ms",
    "connect ms",
    "memory MiB",
    "descriptors",
    "released s",
    "verdict",
)

_LEGEND: Final = f"""\
Three numbers are before, during (of memory and descriptors the peak), and after the attack. Times are net of
waiting for a CPU. Goals: blocked at most {BLOCKED_MS_MAX:g} ms; p99 at most {P99_FACTOR_MAX:g} times the one
before, or {P99_FLOOR_MS:g} ms; memory within the attack's bound; all released within {RELEASED_S_MAX:g} s."""


def table_of(rows: Sequence[Row]) -> Table:
    """Return the table; three numbers in a cell are before, during (or peak), and after."""
    table = Table(title="Hostile clients", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("attack", "verdict") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> Sequence[str]:
    verdict = "[red]FAIL" if row.failures else "[yellow]slow" if row.misses else "[green]pass"
    one = row.measurements
    if one is None:
        return (row.attack.name, row.attack.item, *[""] * (len(_COLUMNS) - 3), verdict)
    memory = (one.memory_before, one.memory_peak, one.memory_after)
    return (
        row.attack.name,
        row.attack.item,
        f"{one.blocked_ms:,.1f}",
        "" if one.stall_ms is None else f"{one.stall_ms:,.0f}",
        " ".join(f"{phase.p50_ms:.1f}" for phase in (one.before, one.during, one.after)),
        " ".join(f"{phase.p99_ms:,.1f}" for phase in (one.before, one.during, one.after)),
        f"{one.during.connect_max_ms:,.0f}",
        " ".join(f"{value / MEBIBYTE:,.0f}" for value in memory),
        f"{one.descriptors_before} {one.descriptors_peak} {one.descriptors_after}",
        "never" if one.released_s is None else f"{one.released_s:.1f}",
        verdict,
    )


def print_report(console: Console, rows: Sequence[Row]) -> None:
    """Print the table, its legend, and the summary."""
    console.print(table_of(rows))
    for row in rows:
        for style, texts in (("red", row.failures), ("yellow", row.misses), ("dim", row.notes)):
            for text in texts:
                console.print(f"{row.attack.name}: {text}", style=style, highlight=False, markup=False)
    console.print(_LEGEND, style="dim", highlight=False)
    for line in summary_of(rows):
        console.print(line, highlight=False, markup=False)


def summary_of(rows: Sequence[Row]) -> Sequence[str]:
    """Return the number of attacks, and for each goal how many missed it."""
    measurements = [row.measurements for row in rows if row.measurements is not None]
    blocked = sum(one.blocked_ms > BLOCKED_MS_MAX for one in measurements)
    slow = sum(one.during.p99_ms > p99_goal_ms(one.before) for one in measurements)
    failed = sum(bool(row.failures) for row in rows)
    return (
        f"{len(rows)} attacks; {sum(not row.failures and not row.misses for row in rows)} within all goals",
        f"blocked more than {BLOCKED_MS_MAX:g} ms: {blocked}",
        f"p99 above its goal: {slow}",
        f"failed (memory, logs or release beyond the bound, or a wrong result): {failed}",
    )


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write what `print_report` prints, as plain text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        print_report(Console(file=file, width=WIDTH_OF_FILES), rows)


def print_progress(console: Console, row: Row) -> None:
    """Print failures as soon as they are known."""
    if not console.is_terminal and row.measurements is not None:
        console.print(f"{row.attack.name}: {row.measurements.blocked_ms:,.1f} ms blocked", highlight=False)
    for text in row.failures:
        console.print(f"{row.attack.name}: {text}", style="red", highlight=False, markup=False)


def write_json(path: Path, rows: Sequence[Row], effort: Effort) -> None:
    """Write all figures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "scale": effort.scale,
        "seconds": effort.seconds,
        "rows": [row.as_json() for row in rows],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
