"""The totals of many runs: failures, simulated time, speed, faults by kind, and pairs of state and fault."""

from __future__ import annotations

import time
from collections import Counter

from tests.sim.cluster.coverage import Coverage
from tests.sim.cluster.run import Outcome


class Report:
    """The totals so far."""

    def __init__(self) -> None:
        self._started_s = time.perf_counter()
        self.runs = self.failed = 0
        self.coverage = Coverage()
        self._simulated_s = self._longest_recovery_s = 0.0
        self._events = self._acknowledged = 0
        self._faults: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Add a run that has passed."""
        self.runs += 1
        self._simulated_s += outcome.simulated_s
        self._longest_recovery_s = max(self._longest_recovery_s, outcome.recovery_s)
        self._events += outcome.events
        self._acknowledged += outcome.acknowledged
        self._faults.update(outcome.faults)
        self.coverage.add(outcome.pairs)

    def add_failure(self) -> None:
        """Add a run that has failed."""
        self.runs += 1
        self.failed += 1

    def lines(self) -> list[str]:
        """Return the report."""
        elapsed_s = time.perf_counter() - self._started_s
        return [
            f"{self.runs} seeds, {self.failed} failed, {elapsed_s:.0f} s, "
            f"{self.runs / elapsed_s * 60:.0f} per minute",
            f"{self._simulated_s / 3600:.2f} simulated hours, "
            f"{self._simulated_s / elapsed_s:.0f} times real time, "
            f"{self._events / elapsed_s:.0f} events per second, {self._acknowledged} records acknowledged",
            f"the longest recovery after the last fault took {self._longest_recovery_s:.1f} s",
            f"{self._faults.total()} faults: "
            + ", ".join(f"{count} {name}" for name, count in sorted(self._faults.items())),
            *self.coverage.lines(),
        ]
