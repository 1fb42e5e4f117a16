"""A figure beside its reference and its target; how they become a table and a file."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

RESULTS: Final = Path(__file__).resolve().parent / "results" / "bench.json"


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: what was measured, what it is compared with, and which ratio is aimed at.

    `at_least` and `at_most` bound `value / reference` ("x") or, without a reference, `value` itself.
    """

    name: str
    value: float
    unit: str
    reference: float | None = None
    reference_name: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def judged(self) -> float:
        """The number that the target speaks of."""
        return self.value / self.reference if self.reference else self.value

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None when there is none."""
        if self.at_least is not None:
            return self.judged >= self.at_least
        if self.at_most is not None:
            return self.judged <= self.at_most
        return None


def median(rounds: int, measure: Callable[[], float]) -> float:
    """The median of some rounds."""
    return statistics.median(measure() for _ in range(rounds))


def paired(rounds: int, ours: Callable[[], float], reference: Callable[[], float]) -> tuple[float, float]:
    """Two medians, measured in turns so that the machine's moods hit both."""
    pairs = [(ours(), reference()) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def write(figures: Sequence[Figure]) -> None:
    """Keep the figures as JSON."""
    RESULTS.parent.mkdir(exist_ok=True)
    rows = [{**asdict(figure), "judged": figure.judged, "is_met": figure.is_met} for figure in figures]
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    RESULTS.write_text(json.dumps({"machine": machine, "figures": rows}, indent=2) + "\n")


def show(console: Console, figures: Sequence[Figure]) -> None:
    """Print the figures as a table."""
    table = Table("figure", "value", "reference", "ratio", "target", "", title="Benchmarks")
    for figure in figures:
        has_reference = figure.reference is not None
        reference = f"{_number(figure.reference or 0)} {figure.reference_name}" if has_reference else ""
        ratio = f"{figure.judged:.2f}" if has_reference else ""
        mark = {True: "[green]met", False: "[red]missed", None: ""}[figure.is_met]
        table.add_row(
            figure.name, f"{_number(figure.value)} {figure.unit}", reference, ratio, _target(figure), mark
        )
    console.print(table)


def _target(figure: Figure) -> str:
    sign, bound = ("≥", figure.at_least) if figure.at_least is not None else ("≤", figure.at_most)
    if bound is None:
        return ""
    return f"{sign} {bound:g}" + (" x" if figure.reference is not None else f" {figure.unit}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
