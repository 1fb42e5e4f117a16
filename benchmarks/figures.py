"""A figure with its reference and its target, and the table and the file of figures."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table

RESULTS: Final = Path(__file__).resolve().parent / "results" / "bench.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row: the measured value, its reference and its target.

    `at_least` and `at_most` bound `ratio` where there is a reference, else `value` itself.
    """

    name: str
    value: float
    unit: str
    reference: float | None = None
    reference_name: str = ""
    ratio: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Return whether the target is met; None without a target."""
        judged = self.value if self.ratio is None else self.ratio
        if self.at_least is not None:
            return judged >= self.at_least
        if self.at_most is not None:
            return judged <= self.at_most
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians of Tidelog and of a reference, measured alternately, so that disturbances affect both.

    `ratio` is the median of the ratios of the rounds, so that a disturbance of a whole round has no effect.
    """

    ours: float
    reference: float
    ratio: float

    @classmethod
    def of(cls, pairs: Iterable[tuple[float, float]]) -> Comparison:
        """Return the medians of pairs (ours, reference), one for each round."""
        rounds = list(pairs)
        return cls(
            statistics.median(ours for ours, _ in rounds),
            statistics.median(reference for _, reference in rounds),
            statistics.median(ours / reference for ours, reference in rounds),
        )

    def figure(
        self,
        name: str,
        unit: str,
        reference_name: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        note: str = "",
    ) -> Figure:
        """Return the row of the table for this comparison."""
        return Figure(
            name=name,
            value=self.ours,
            unit=unit,
            reference=self.reference,
            reference_name=reference_name,
            ratio=self.ratio,
            at_least=at_least,
            at_most=at_most,
            note=note,
        )


def median(rounds: int, measure: Callable[[], float]) -> float:
    """Return the median of `rounds` measurements."""
    return statistics.median(measure() for _ in range(rounds))


def write(figures: Sequence[Figure], rounds: int) -> None:
    """Write the figures as JSON."""
    RESULTS.parent.mkdir(exist_ok=True)
    document = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": rounds,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "figures": [{**asdict(figure), "is_met": figure.is_met} for figure in figures],
    }
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")


def show(console: Console, figures: Sequence[Figure]) -> None:
    """Print the figures as a table; in 80 columns, only names are wrapped, not numbers."""
    table = Table(title="Tidelog compared with its references", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading, justify in _COLUMNS:
        table.add_column(heading, justify=justify, no_wrap=heading != "figure")
    for figure in figures:
        reference = "" if figure.reference is None else _number(figure.reference)
        judgement = {True: " [green]met", False: " [red]missed", None: ""}[figure.is_met]
        table.add_row(
            f"{figure.name}\n  [dim]{figure.note}" if figure.note else figure.name,
            f"{_number(figure.value)} {figure.unit}",
            f"{reference} {figure.reference_name}",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            _target(figure) + judgement,
        )
    console.print(table)


_COLUMNS: Final[tuple[tuple[str, JustifyMethod], ...]] = (
    ("figure", "left"),
    ("value", "right"),
    ("reference", "right"),
    ("ratio", "right"),
    ("target", "left"),
)


def _target(figure: Figure) -> str:
    sign, bound = ("≥", figure.at_least) if figure.at_least is not None else ("≤", figure.at_most)
    if bound is None:
        return ""
    return f"{sign} {bound:g}" + (" x" if figure.ratio is not None else f" {figure.unit}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
