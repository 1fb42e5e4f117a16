"""Runs cases: starts the brokers of both engines, warms them up, measures alternately, and saves the figures.

The order of the turns is A B B A, so that slow changes of the machine affect both engines equally. While one
engine is measured, the brokers of the other one are idle.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.progress import Progress, TaskID

from benchmarks.file_memory import touch_file_memory
from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import Case, Effort, Findings, Suite
from benchmarks.kafka.noise import NOISY_FROM, NoiseMeter
from benchmarks.kafka.results import Report, Row
from benchmarks.kafka.warm_up import warm_up
from benchmarks.processes import BenchmarkError
from tests.reference_software.kafka_programs import Engine

START_S: Final = {Engine.KAFKA: 6.0, Engine.TIDELOG: 2.0}
"""The expected seconds for formatting and starting one node."""
CALIBRATION_S: Final = 0.2
STARTS_MAX: Final = 2
"""After so many failures to start and warm up the same brokers in sequence, their cases are left out."""


@dataclass(frozen=True, slots=True)
class Step:
    """One planned case of a suite."""

    suite: str
    case: Case


class Runner:
    """Runs steps in sequence; consecutive steps with an equal setup share their brokers."""

    def __init__(self, jars: Path, effort: Effort, report: Report, progress: Progress) -> None:
        self._jars = jars
        self._effort = effort
        self._report = report
        self._progress = progress
        self._task: TaskID = progress.add_task("", total=None)
        self._noise = NoiseMeter()
        self._setup: Setup | None = None
        self._brokers: dict[Engine, Brokers] = {}
        self._failed_starts: dict[Setup, int] = {}

    def run(self, suites: Iterable[Suite], on_rows: Callable[[list[Row]], None]) -> None:
        """Measure every case that the report does not have yet; report and omit a case that fails."""
        chosen = list(suites)
        steps = plan_steps(chosen, self._effort, self._report)
        self._progress.update(self._task, total=expected_seconds(steps, self._effort))
        growths = {suite.name: suite.growths for suite in chosen}
        started, before = time.monotonic(), self._report.seconds
        try:
            for step in steps:
                self._progress.update(self._task, description=f"{step.suite}: {step.case.name}")
                rows = self._measure(step)
                for growth in growths[step.suite] if _is_last(step, steps) else ():
                    rows += self._report.add_growth(step.suite, growth)
                self._report.seconds = before + time.monotonic() - started
                self._report.save()
                on_rows(rows)
        finally:
            self._close()

    def _measure(self, step: Step) -> list[Row]:
        try:
            self._open(step.case.setup)
            noise = self._noise.measure()
            if noise >= NOISY_FROM:
                self._warn(f"the machine is busy: fixed work takes {noise:.2f} times as long as before")
            found = self._turns(step.case)
        except Exception as error:
            # The other cases are worth measuring all the same, with brokers from scratch.
            self._report.failures[f"{step.suite}: {step.case.name}"] = f"{type(error).__name__}: {error}"
            self._warn(f"{step.case.name} failed: {type(error).__name__}: {str(error)[:500]}")
            self._close()
            return []
        return self._report.add(step.suite, step.case, found, max(noise, self._noise.measure()))

    def _turns(self, case: Case) -> Mapping[Engine, list[Findings]]:
        if case.prepare is not None:
            for brokers in self._brokers.values():
                case.prepare(brokers)
                self._progress.advance(self._task, case.prepare_s)
        found: dict[Engine, list[Findings]] = {engine: [] for engine in Engine}
        for engine in turn_order(rounds_of(case, self._effort)):
            # Dirty pages of one engine must not be written during the turn of the other.
            os.sync()
            found[engine].append(self._turn(case, engine))
            self._progress.advance(self._task, case.turn_s)
        if case.clean_up is not None:
            for brokers in self._brokers.values():
                case.clean_up(brokers)
        return found

    def _turn(self, case: Case, engine: Engine) -> Findings:
        if not case.setup.per_turn:
            return case.turn(self._brokers[engine])
        brokers = Brokers(engine, case.setup, self._jars)
        try:
            return case.turn(brokers)
        finally:
            brokers.remove()

    def _open(self, setup: Setup) -> None:
        if setup == self._setup:
            return
        self._close()
        if self._failed_starts.get(setup, 0) >= STARTS_MAX:
            raise BenchmarkError(f"brokers did not start {STARTS_MAX} times")
        touch_file_memory()
        if not setup.per_turn:
            self._failed_starts[setup] = self._failed_starts.get(setup, 0) + 1
            self._start(setup)
            self._failed_starts[setup] = 0
        self._setup = setup

    def _start(self, setup: Setup) -> None:
        for engine in Engine:
            brokers = self._brokers[engine] = Brokers(engine, setup, self._jars)
            brokers.start()
            self._progress.advance(self._task, START_S[engine] * setup.nodes)
        for engine, seconds in _warm_ups(setup, self._effort):
            self._progress.update(self._task, description=f"{engine.value} warm-up")
            warm_up(self._brokers[engine], seconds)
            self._progress.advance(self._task, seconds)

    def _close(self) -> None:
        for brokers in self._brokers.values():
            brokers.remove()
        self._brokers.clear()
        self._setup = None

    def _warn(self, text: str) -> None:
        self._progress.console.print(f"[yellow]warning:[/yellow] {text}")


def turn_order(rounds: int) -> Iterator[Engine]:
    """Yield A B B A A B ...: each round contains both, and every second round is reversed."""
    for number in range(rounds):
        both = (Engine.KAFKA, Engine.TIDELOG)
        yield from both if number % 2 == 0 else reversed(both)


def rounds_of(case: Case, effort: Effort) -> int:
    """Return the number of turns of each engine."""
    return effort.rounds if case.rounds_max is None else min(effort.rounds, case.rounds_max)


def plan_steps(suites: Iterable[Suite], effort: Effort, report: Report) -> list[Step]:
    """Return the cases that the report does not have yet, in order."""
    return [
        Step(suite.name, case)
        for suite in suites
        for case in suite.cases(effort)
        if not report.has(suite.name, case)
    ]


def expected_seconds(steps: Iterable[Step], effort: Effort) -> float:
    """Return the expected duration of the steps, including starts and warm-ups, on a quiet machine."""
    total, setup = 0.0, None
    for step in steps:
        case = step.case
        if case.setup != setup:
            setup = case.setup
            total += _open_seconds(setup, effort)
        turns = len(list(turn_order(rounds_of(case, effort))))
        total += turns * case.turn_s + len(Engine) * case.prepare_s + CALIBRATION_S
    return total


def _open_seconds(setup: Setup, effort: Effort) -> float:
    if setup.per_turn:
        return 0.0
    return sum(START_S.values()) * setup.nodes + sum(seconds for _, seconds in _warm_ups(setup, effort))


def _warm_ups(setup: Setup, effort: Effort) -> list[tuple[Engine, float]]:
    if not setup.is_warmed_up:
        return []
    return [(Engine.KAFKA, effort.kafka_warm_up_s), (Engine.TIDELOG, effort.tidelog_warm_up_s)]


def _is_last(step: Step, steps: list[Step]) -> bool:
    return [each for each in steps if each.suite == step.suite][-1] is step
