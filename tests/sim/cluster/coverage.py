"""How often each fault has happened in each state of a cluster, over many runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields

from tests.sim.cluster.plan import FaultRates
from tests.sim.cluster.states import ALL_STATES

Pair = tuple[str, str]
"""A state and a fault."""
ALL_FAULTS = tuple(field.name for field in fields(FaultRates))
ALL_PAIRS: frozenset[Pair] = frozenset((state, fault) for state in ALL_STATES for fault in ALL_FAULTS)


class Coverage:
    """The number of times that each pair has occurred."""

    def __init__(self) -> None:
        self.counts: Counter[Pair] = Counter()

    def add(self, pairs: Mapping[Pair, int] | Iterable[Pair]) -> None:
        """Add the pairs of a fault or of a run."""
        self.counts.update(pairs)

    @property
    def missing(self) -> list[Pair]:
        """The pairs that have not occurred, in order."""
        return sorted(ALL_PAIRS - self.counts.keys())

    def lines(self) -> list[str]:
        """Return a table of all pairs, and how many have occurred."""
        width = max(map(len, ALL_STATES))
        header = " ".join(f"{fault[:11]:>11}" for fault in ALL_FAULTS)
        rows = [
            f"{state:<{width}} " + " ".join(f"{self.counts[state, fault] or '-':>11}" for fault in ALL_FAULTS)
            for state in ALL_STATES
        ]
        covered = len(ALL_PAIRS) - len(self.missing)
        return [
            f"{covered} of {len(ALL_PAIRS)} pairs of state and fault have occurred:",
            f"{'':<{width}} {header}",
            *rows,
        ]
