"""A row of the table, and the goals (pure).

    failures   the broker ended, stopped responding, kept resources, used more memory than the attack's
               bound, logged without bound, or failed a check of the attack itself
    misses     times: the event loop was blocked for more than BLOCKED_MS_MAX, or the 99th percentile of the
               well-behaved client was more than P99_FACTOR_MAX times the one without an attack

Times depend on the machine and its load; a miss is a failure only on request of the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.measurements import Phase

BLOCKED_MS_MAX: Final = 20.0
P99_FACTOR_MAX: Final = 2.0
P99_FLOOR_MS: Final = 5.0
"""Up to this value, the 99th percentile is not compared: twice 1 ms, as without an attack, is noise."""
RELEASED_S_MAX: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackMeasurements:
    """The measurements of one attack."""

    before: Phase
    during: Phase
    after: Phase
    blocked_ms: float
    """The longest time in which the probe had no response, from the start to the release."""
    stall_ms: float | None
    """The longest stall of the event loop that the broker itself reports."""
    memory_before: int
    memory_peak: int
    memory_after: int
    descriptors_before: int
    descriptors_peak: int
    descriptors_after: int
    released_s: float | None
    """The time from the attacker's end until all connections, operations and memory were released."""
    log_lines: int
    seconds: float
    """The duration of the attack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attack with its result; `measurements` is None if the broker could not be observed to the end."""

    attack: Attack
    measurements: AttackMeasurements | None
    failures: Sequence[str]
    misses: Sequence[str]
    notes: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """Return the row for a JSON document."""
        return {
            "name": self.attack.name,
            "item": self.attack.item,
            "actions": self.attack.actions,
            "memory_mib_max": self.attack.memory_mib,
            "failures": list(self.failures),
            "misses": list(self.misses),
            "notes": list(self.notes),
            "measurements": None if self.measurements is None else asdict(self.measurements),
        }


def failures_of(attack: Attack, measurements: AttackMeasurements) -> list[str]:
    """Return failures that must not occur on any machine, however slow."""
    failures = []
    peak_growth = (measurements.memory_peak - measurements.memory_before) / MEBIBYTE
    if peak_growth > attack.memory_mib:
        failures.append(f"memory grew by {peak_growth:.0f} MiB, the bound is {attack.memory_mib} MiB")
    if measurements.released_s is None:
        memory_growth = (measurements.memory_after - measurements.memory_before) / MEBIBYTE
        descriptors = measurements.descriptors_after - measurements.descriptors_before
        failures.append(f"not released: {memory_growth:+.0f} MiB, {descriptors:+d} descriptors")
    if measurements.log_lines > attack.log_lines_max:
        failures.append(f"{measurements.log_lines} lines logged, the bound is {attack.log_lines_max}")
    if measurements.after.errors:
        failures.append(f"the well-behaved client got {measurements.after.errors} errors after the attack")
    return failures


def misses_of(measurements: AttackMeasurements) -> list[str]:
    """Return the goals for times that were missed."""
    failures = []
    if measurements.blocked_ms > BLOCKED_MS_MAX:
        failures.append(f"blocked {measurements.blocked_ms:,.0f} ms, the goal is {BLOCKED_MS_MAX:.0f} ms")
    goal = p99_goal_ms(measurements.before)
    if measurements.during.p99_ms > goal:
        failures.append(f"p99 {measurements.during.p99_ms:,.1f} ms, the goal is {goal:.1f} ms")
    return failures


def p99_goal_ms(before: Phase) -> float:
    """Return the goal for the 99th percentile during an attack."""
    return max(P99_FACTOR_MAX * before.p99_ms, P99_FLOOR_MS)
