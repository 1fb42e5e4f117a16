"""Rows of a comparison with their ratios and targets, and the JSON file that contains them."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.kafka.case import Better, Case, Effort, Growth, Metric, TargetOf
from tests.reference_software.kafka_programs import Engine

RESULTS: Final = Path(__file__).resolve().parent.parent / "results"
ROOT: Final = RESULTS.parent.parent
FILE_PATTERN: Final = "kafka-*.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of both engines: a value for each round, in the order of the rounds.

    Rows of one suite with equal `line` differ by `variant`, and share a line of the document.
    """

    suite: str
    case: str
    line: str
    variant: str
    unit: str
    better: Better
    kafka: tuple[float, ...]
    tidelog: tuple[float, ...]
    target: float | None = None
    target_of: TargetOf = TargetOf.RATIO
    noise: float = 1.0

    @property
    def ratio(self) -> float | None:
        """Return Tidelog's figure divided by Apache Kafka's: the median of the ratios of the rounds.

        A disturbance of a whole round has no effect. None if Apache Kafka's figure is 0 in every round.
        """
        pairs = zip(self.tidelog, self.kafka, strict=True)
        ratios = [tidelog / kafka for tidelog, kafka in pairs if kafka > 0]
        return statistics.median(ratios) if ratios else None

    @property
    def is_met(self) -> bool | None:
        """Return whether the target is met; None without a target or without a ratio."""
        judged = self.ratio if self.target_of is TargetOf.RATIO else statistics.median(self.tidelog)
        if self.target is None or judged is None:
            return None
        return judged >= self.target if self.better is Better.HIGHER else judged <= self.target


@dataclass(slots=True)
class Report:
    """The rows of a run so far; `save` after each case, so that an interrupted run can be resumed."""

    path: Path
    machine: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def new(cls, effort: Effort, started_at: datetime) -> Report:
        """Return an empty report with a new file name."""
        name = f"kafka-{started_at:%Y%m%dT%H%M%S}.json"
        return cls(RESULTS / name, {**machine(started_at), "effort": asdict(effort)})

    @classmethod
    def load(cls, path: Path) -> Report:
        """Read a report from its file."""
        document = json.loads(path.read_text())
        rows = [_row(values) for values in document["rows"]]
        return cls(path, document["machine"], rows, document["failures"], document["seconds"])

    def save(self) -> None:
        """Write the file; an interruption does not damage the previous one."""
        document = {
            "machine": self.machine,
            "seconds": round(self.seconds, 1),
            "failures": self.failures,
            "rows": [_values(row) for row in self.rows],
        }
        self.path.parent.mkdir(exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(document, indent=1) + "\n")
        partial.replace(self.path)

    def has(self, suite: str, case: Case) -> bool:
        """Return whether the case has been measured."""
        return any(row.suite == suite and row.case == case.name for row in self.rows)

    def add(
        self, suite: str, case: Case, found: Mapping[Engine, Sequence[Mapping[str, float]]], noise: float
    ) -> list[Row]:
        """Add and return the rows of one case; `found` contains the result of each round."""
        rows = [_case_row(suite, case, metric, found, noise) for metric in case.metrics]
        self.rows += rows
        self.failures.pop(f"{suite}: {case.name}", None)
        return rows

    def add_growth(self, suite: str, growth: Growth) -> list[Row]:
        """Add the last variant divided by the first one, once for each run; nothing without two variants."""
        line = f"{growth.line}; {growth.name}"
        rows = [row for row in self.rows if row.suite == suite and row.line == growth.line]
        if len(rows) < 2 or any(row.line == line for row in self.rows):
            return []
        first, last = rows[0], rows[-1]
        added = Row(
            suite=suite,
            case="",
            line=line,
            variant="",
            unit="x",
            better=first.better,
            kafka=_ratios(last.kafka, first.kafka),
            tidelog=_ratios(last.tidelog, first.tidelog),
            target=growth.target,
            target_of=TargetOf.TIDELOG,
            noise=max(first.noise, last.noise),
        )
        self.rows.append(added)
        return [added]


def latest(folder: Path = RESULTS) -> Path | None:
    """Return the newest report file, by its name; None without one."""
    return max(folder.glob(FILE_PATTERN), default=None)


def machine(started_at: datetime) -> dict[str, Any]:
    """Return the properties of the machine: processor, memory, versions, commit, load."""
    return {
        "measured_at": started_at.astimezone(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
        "java": _java_version(),
        "commit": _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _case_row(
    suite: str,
    case: Case,
    metric: Metric,
    found: Mapping[Engine, Sequence[Mapping[str, float]]],
    noise: float,
) -> Row:
    name = case.name if metric.variant else case.group
    return Row(
        suite=suite,
        case=case.name,
        line=f"{name}: {metric.name}",
        variant=metric.variant or case.variant,
        unit=metric.unit,
        better=metric.better,
        kafka=tuple(float(each[metric.key]) for each in found[Engine.KAFKA]),
        tidelog=tuple(float(each[metric.key]) for each in found[Engine.TIDELOG]),
        target=metric.target,
        target_of=metric.target_of,
        noise=noise,
    )


def _ratios(ones: Sequence[float], others: Sequence[float]) -> tuple[float, ...]:
    """Return the ratios of the rounds."""
    return tuple(one / other for one, other in zip(ones, others, strict=True))


def _values(row: Row) -> dict[str, Any]:
    enums = {"better": row.better.value, "target_of": row.target_of.value}
    return {**asdict(row), **enums, "ratio": row.ratio, "is_met": row.is_met}


def _row(values: Mapping[str, Any]) -> Row:
    derived = {"ratio", "is_met"}
    own: dict[str, Any] = {key: value for key, value in values.items() if key not in derived}
    return Row(
        **{
            **own,
            "better": Better(own["better"]),
            "target_of": TargetOf(own["target_of"]),
            "kafka": tuple(own["kafka"]),
            "tidelog": tuple(own["tidelog"]),
        }
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )


def _java_version() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[0] if done.stderr else "unknown"


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
