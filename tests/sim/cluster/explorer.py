"""Selects the next seeds so that states and faults occur together that have rarely done so.

The plan of a seed is fixed; the explorer only selects seeds, so that its seed is enough to replay a run. Of
CANDIDATES consecutive seeds it selects the one that probably adds most: the sum over all pairs of a state
and an enabled fault of the probability that the state occurs, divided by how often the pair has occurred.

The probability of a state is estimated from the runs so far: the largest share of the runs with one of the
features of the plan in which the state occurred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Final

from tests.sim.cluster.coverage import Coverage, Pair
from tests.sim.cluster.plan import Plan, plan_of
from tests.sim.cluster.states import ALL_STATES

CANDIDATES: Final = 16
_FIRST_RUNS: Final = 8
"""Each feature begins with this many imagined runs, in half of which each state occurred."""


class Explorer:
    """The seeds that were not selected yet, and what the runs so far have shown."""

    def __init__(self, first: int, plan_of_seed: Callable[[int], Plan] = plan_of) -> None:
        self.coverage = Coverage()
        self._plan_of = plan_of_seed
        self._next = first
        self._runs: Counter[str] = Counter()
        """The number of runs by feature."""
        self._occurrences: Counter[tuple[str, str]] = Counter()
        """The number of runs by feature and state that occurred."""

    def select(self) -> int:
        """Return the best seed of the next CANDIDATES; the others are skipped."""
        seeds = range(self._next, self._next + CANDIDATES)
        self._next += CANDIDATES
        return max(seeds, key=lambda seed: self._value(self._plan_of(seed)))

    def add(self, seed: int, pairs: Iterable[Pair]) -> None:
        """Add the pairs that occurred in the run of a seed."""
        pairs = list(pairs)
        self.coverage.add(pairs)
        states = {state for state, _ in pairs}
        for feature in features(self._plan_of(seed)):
            self._runs[feature] += 1
            self._occurrences.update((feature, state) for state in states)

    def _value(self, plan: Plan) -> float:
        faults, counts = plan.faults.enabled(), self.coverage.counts
        names = features(plan)
        return sum(
            self._probability(names, state) * sum(1 / (1 + counts[state, fault]) for fault in faults)
            for state in ALL_STATES
        )

    def _probability(self, names: Iterable[str], state: str) -> float:
        return max(
            (self._occurrences[feature, state] + _FIRST_RUNS / 2) / (self._runs[feature] + _FIRST_RUNS)
            for feature in names
        )


def features(plan: Plan) -> list[str]:
    """Return the features of a plan: its enabled faults, and each setting with its value."""
    settings = [
        f"{field.name}={getattr(plan, field.name)}"
        for field in fields(plan)
        if field.name not in ("faults", "config", "topic_config")
    ]
    return [*plan.faults.enabled(), *sorted(plan.config), *sorted(plan.topic_config), *settings]
