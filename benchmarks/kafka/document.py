"""Writes the table of a report and the list of suites into docs/performance.md, each between two markers."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from benchmarks.kafka.case import Suite
from benchmarks.kafka.results import ROOT, Report, Row
from benchmarks.kafka.table import is_noisy, number_text, ratio_text, target_text

DOCUMENT: Final = ROOT / "docs" / "performance.md"
TABLE: Final = "bench-kafka"
SUITE_LIST: Final = "bench-kafka-suites"


def write(report: Report, suites: Iterable[Suite], path: Path = DOCUMENT) -> None:
    """Replace the table and the list of suites in the document."""
    text = with_section(path.read_text(), TABLE, markdown(report))
    path.write_text(with_section(text, SUITE_LIST, suite_list(suites)))


def with_section(text: str, name: str, section: str) -> str:
    """Return `text` with `section` between the markers called `name`. Raise ValueError without markers."""
    opening, closing = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, begin, rest = text.partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise ValueError(f"the document has no {opening} with {closing} after it")
    return f"{before}{begin}\n{section}{end}{after}"


def suite_list(suites: Iterable[Suite]) -> str:
    """Return the names of the suites and what each measures, as a table."""
    rows = [f"| `{suite.name}` | {suite.what} |" for suite in suites]
    return "\n".join(["| suite | what it measures |", "|---|---|", *rows]) + "\n"


def markdown(report: Report) -> str:
    """Return the machine and the table; variants of one line share a row, divided by slashes."""
    lines = [
        _machine(report.machine, report.seconds),
        "",
        "| figure | Apache Kafka | Tidelog | ratio | target |",
        "|---|---|---|---|---|",
    ]
    for suite, rows in groupby(_sort(report.rows), key=lambda row: row.suite):
        lines.append(f"| **{suite}** | | | | |")
        lines += [_line(list(variants)) for _, variants in groupby(rows, key=lambda row: row.line)]
    if any(is_noisy(row) for row in report.rows):
        lines += ["", "~ The machine was busy with something else during at least one of these figures."]
    return "\n".join(lines) + "\n"


def _sort(rows: Iterable[Row]) -> list[Row]:
    """Keep the order of first occurrence of suites, and of lines within them."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault(row.suite, {}).setdefault(row.line, []).append(row)
    return [row for lines in found.values() for variants in lines.values() for row in variants]


def _line(rows: Sequence[Row]) -> str:
    first = rows[0]
    variants = " / ".join(row.variant for row in rows if row.variant)
    name = f"{first.line}; {variants}" if variants else first.line
    noisy = " ~" if any(map(is_noisy, rows)) else ""
    cells = [
        name + noisy,
        f"{' / '.join(_median(row.kafka) for row in rows)} {first.unit}",
        f"{' / '.join(_median(row.tidelog) for row in rows)} {first.unit}",
        " / ".join(map(ratio_text, rows)),
        _target(rows),
    ]
    return f"| {' | '.join(cells)} |"


def _target(rows: Sequence[Row]) -> str:
    judged = [row for row in rows if row.is_met is not None]
    if not judged:
        return ""
    words = ["met" if row.is_met else "missed" for row in judged]
    verdict = words[0] if len(set(words)) == 1 else " / ".join(words)
    return f"{target_text(judged[0])}: {verdict}"


def _median(values: Sequence[float]) -> str:
    return number_text(statistics.median(values))


def _machine(machine: dict[str, Any], seconds: float) -> str:
    parts = [
        f"Measured {machine['measured_at'][:10]} at commit {machine['commit']}: {machine['cores']} cores",
        f"({machine['processor']}), {machine['memory_gib']} GiB, {machine['system']},",
        f"Python {machine['python']}, {machine['java']};",
        f"{machine['effort']['rounds']} turns of each engine, {seconds / 60:.0f} minutes{_form(machine)}.",
        "Ratio: Tidelog divided by Apache Kafka.",
    ]
    return " ".join(parts)


def _form(machine: dict[str, Any]) -> str:
    return ", short form" if machine["effort"]["is_short"] else ""
