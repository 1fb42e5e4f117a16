"""Makes the plan of a failed run smaller, as long as the run fails in the same way.

A change of the plan changes all random choices that follow. Therefore each smaller plan gets several
attempts, with the seed of the failure and with others. The result is a plan with fewer nodes, faults,
clients and settings, and a shorter phase of faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

from tests.sim.cluster.plan import Plan
from tidelog.local_cluster.layout import QUICK_TIMEOUTS

ATTEMPTS: Final = 3
"""The number of seeds with which a smaller plan is tried."""
SAFETY_S_MIN: Final = 2.0
_SMALLEST: Final = Plan(producers=1, partitions=1, faults_max=None)
_NOT_RESET: Final = frozenset(
    {"nodes", "safety_s", "liveness_s", "faults", "faults_max", "syncs_every_append", "config"}
)
_KEPT_CONFIGS: Final = frozenset({*QUICK_TIMEOUTS, "log.flush.interval.messages"})
"""Without short timeouts runs are longer; the faults of a plan depend on the flush of each message."""
_VARIABLE = re.compile(r"b?'[^']*'|\{[^}]*\}|\[[^\]]*\]|[\d.]+")
_KIND_CHARACTERS: Final = 80
Run = Callable[[int, Plan], str | None]
"""Runs a seed with a plan, and returns the text of its failure; None if it passes."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed."""

    seed: int
    plan: Plan
    text: str

    @property
    def kind(self) -> str:
        """The text without names and numbers: equal for failures of one cause."""
        return _VARIABLE.sub("_", self.text)[:_KIND_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Shrinking:
    """The smallest failure that was found, and the number of runs that were needed."""

    failure: Failure
    runs: int


def shrink(failure: Failure, run: Run, runs_max: int) -> Shrinking:
    """Return the smallest failure of the same kind that at most `runs_max` runs find."""
    smallest, runs = failure, 0
    while True:
        for plan in smaller_plans(smallest.plan):
            smaller, tried = _first_failure(smallest, plan, run, runs_max - runs)
            runs += tried
            if smaller is not None:
                smallest = smaller
                break
            if runs >= runs_max:
                return Shrinking(smallest, runs)
        else:
            return Shrinking(smallest, runs)


def _first_failure(failure: Failure, plan: Plan, run: Run, runs_max: int) -> tuple[Failure | None, int]:
    """Return the first failure of the same kind with a plan, and the number of runs."""
    for attempt in range(min(ATTEMPTS, runs_max)):
        seed = failure.seed + attempt
        text = run(seed, plan)
        if text is not None:
            smaller = Failure(seed, plan, text)
            if smaller.kind == failure.kind:
                return smaller, attempt + 1
    return None, min(ATTEMPTS, runs_max)


def smaller_plans(plan: Plan) -> Iterator[Plan]:
    """Yield plans that differ from `plan` in one thing, those that save most first."""
    if plan.safety_s / 2 >= SAFETY_S_MIN:
        yield replace(plan, safety_s=plan.safety_s / 2)
    enabled = plan.faults.enabled()
    if len(enabled) > 1:
        for fault in enabled:
            yield plan.without(fault)
    if plan.nodes > _SMALLEST.nodes:
        yield replace(plan, nodes=plan.nodes - 1)
    for field in fields(plan):
        smallest = getattr(_SMALLEST, field.name)
        if field.name not in _NOT_RESET and getattr(plan, field.name) != smallest:
            yield replace(plan, **{field.name: smallest})
    for key in plan.config.keys() - _KEPT_CONFIGS:
        yield replace(plan, config={name: value for name, value in plan.config.items() if name != key})
    limit = plan.faults_max
    if limit is None:
        yield replace(plan, faults_max=16)
    elif limit > 1:
        yield replace(plan, faults_max=limit // 2)
        yield replace(plan, faults_max=limit - 1)
