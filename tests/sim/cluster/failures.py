"""Explains a failed run: its smallest form, the command that replays it, and what happened in it."""

from __future__ import annotations

import re
from typing import Final

from tests.sim.cluster.plan import Plan, plan_of
from tests.sim.cluster.plan_text import text_of
from tests.sim.cluster.run import Run
from tests.sim.cluster.shrinking import Failure, shrink

RUNS_MAX: Final = 60
TIMELINE_LINES_MAX: Final = 80
_DETAIL = re.compile(r"^ *[\d.]+ +\S* +(DEBUG|INFO) ")


def failure_of(seed: int, plan: Plan) -> str | None:
    """Run a seed with a plan; return the text of its failure, None if it passes."""
    try:
        Run(seed, plan).execute()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def command_of(failure: Failure) -> str:
    """Return the command that replays a failure."""
    command = f"python -m tests.sim.cluster --seed {failure.seed}"
    return command if failure.plan == plan_of(failure.seed) else f"{command} --plan '{text_of(failure.plan)}'"


def explain(failure: Failure, runs_max: int = RUNS_MAX) -> str:
    """Shrink a failure within `runs_max` runs, and return its description with a timeline."""
    shrinking = shrink(failure, failure_of, runs_max)
    smallest = shrinking.failure
    return "\n".join(
        [
            f"seed {failure.seed}: {failure.text}",
            f"replay: {command_of(failure)}",
            f"the smallest failure of {shrinking.runs} further runs, seed {smallest.seed}: {smallest.text}",
            f"replay: {command_of(smallest)}",
            *timeline_of(smallest),
        ]
    )


def timeline_of(failure: Failure) -> list[str]:
    """Run a failure again; return its faults, warnings, and the starts and ends of nodes with their times."""
    run = Run(failure.seed, failure.plan)
    try:
        run.execute()
        end = "no failure"
    except Exception as error:
        end = str(error)
    lines = [line for line in run.simulation.trace.timeline if not _DETAIL.match(line)]
    return [*lines[-TIMELINE_LINES_MAX:], f"{run.simulation.now_s:12.6f}  {end}"]
