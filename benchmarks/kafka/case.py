"""Cases of a suite, the brokers that they need, and the effort of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from benchmarks.kafka.brokers import Brokers, Setup

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * 1024
MEGA: Final = 1e6

Findings: TypeAlias = Mapping[str, float]
Step: TypeAlias = Callable[[Brokers], None]
Turn: TypeAlias = Callable[[Brokers], Findings]


class Better(Enum):
    """The direction in which a figure improves."""

    HIGHER = "higher"
    LOWER = "lower"


class TargetOf(Enum):
    """The bounded value: Tidelog's figure divided by Apache Kafka's, or Tidelog's own."""

    RATIO = "ratio"
    TIDELOG = "tidelog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a case: its `key` in the result of a turn, its unit and its target.

    A metric with a variant (p50, p99) shares a line with the others of its name, instead of with the case's
    other variants.
    """

    key: str
    name: str
    unit: str
    better: Better
    variant: str = ""
    target: float | None = None
    target_of: TargetOf = TargetOf.RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One comparison, measured alternately with both engines.

    `group` and `variant` name its rows; rows of one group and metric share a line in the document.
    `prepare` and `clean_up` run once for each engine, outside the measured turns. `turn_s` is the
    expected duration of one turn, `prepare_s` that of the preparation of one engine.
    """

    group: str
    variant: str
    metrics: tuple[Metric, ...]
    setup: Setup
    turn: Turn
    turn_s: float
    prepare: Step | None = None
    prepare_s: float = 0.0
    clean_up: Step | None = None
    rounds_max: int | None = None

    @property
    def name(self) -> str:
        """Return the group with the variant."""
        return f"{self.group}, {self.variant}" if self.variant else self.group


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The durations and the number of measurements of a run.

    `seconds` is the length of a throughput turn and `rate_seconds` that of a turn at a fixed rate. `scale` is
    the share of every counted amount. A run with `is_short` leaves out variants.
    """

    rounds: int
    seconds: float
    rate_seconds: float
    scale: float
    kafka_warm_up_s: float
    tidelog_warm_up_s: float
    is_short: bool = False


STANDARD: Final = Effort(
    rounds=2,
    seconds=1.5,
    rate_seconds=8.0,
    scale=1.0,
    kafka_warm_up_s=30.0,
    tidelog_warm_up_s=5.0,
)
QUICK: Final = Effort(
    rounds=1,
    seconds=0.7,
    rate_seconds=3.0,
    scale=0.1,
    kafka_warm_up_s=6.0,
    tidelog_warm_up_s=2.0,
    is_short=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The figure of the last variant of a line divided by that of the first, for each engine."""

    line: str
    name: str
    target: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Cases with one subject; `what` is the sentence that the documents and `--list` show.

    `growths` are computed from its rows at its end. `requirement` states what is missing without cases.
    """

    name: str
    what: str
    cases: Callable[[Effort], list[Case]]
    growths: tuple[Growth, ...] = ()
    requirement: str = ""


def size_name(size_bytes: int) -> str:
    """Return `16 KiB`, `1 MiB`, `100 B`."""
    if size_bytes >= MEBIBYTE:
        return f"{size_bytes // MEBIBYTE} MiB"
    return f"{size_bytes // KIBIBYTE} KiB" if size_bytes >= KIBIBYTE else f"{size_bytes} B"
