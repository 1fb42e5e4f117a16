"""Runs many seeds in several processes, and prints a report, also if the run is interrupted."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from queue import SimpleQueue
from types import FrameType
from typing import Final, NamedTuple

from tests.sim.cluster.explorer import Explorer
from tests.sim.cluster.failures import explain
from tests.sim.cluster.plan import plan_of
from tests.sim.cluster.report import Report
from tests.sim.cluster.run import Outcome, run_seed
from tests.sim.cluster.shrinking import Failure

EXPLAINED_MAX: Final = 3
"""The failures that are shrunk at the end of a campaign."""
_SEEDS_PER_PROCESS: Final = 100
_WAITING_PER_WORKER: Final = 2
_LONGEST_RUN_S: Final = 900.0


class Attempt(NamedTuple):
    """The result of one seed: an outcome, or the text of its failure."""

    seed: int
    outcome: Outcome | None
    text: str


def attempt(seed: int) -> Attempt:
    """Run one seed."""
    try:
        return Attempt(seed, run_seed(seed), "")
    except AssertionError as error:
        return Attempt(seed, None, str(error))


def run_campaign(first: int, seeds: int, workers: int, *, explores: bool) -> int:
    """Run `seeds` seeds from `first` on; return the number of failures.

    If it `explores`, the explorer selects the seeds. SIGINT and SIGTERM end the campaign with its report.
    """
    report, explorer, failures = Report(), Explorer(first), list[Failure]()
    next_seed = explorer.select if explores else count(first).__next__
    try:
        with _terminated_by_interrupt():
            for result in _attempts(next_seed, seeds, workers):
                if result.outcome is None:
                    report.add_failure()
                    failures.append(Failure(result.seed, plan_of(result.seed), result.text))
                    print(f"FAILED {result.text}\n", flush=True)
                else:
                    report.add(result.outcome)
                    explorer.add(result.seed, result.outcome.pairs)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print("\n".join(report.lines()), flush=True)
    for failure in failures[:EXPLAINED_MAX]:
        print(f"\n{explain(failure)}", flush=True)
    return report.failed


def _attempts(next_seed: Callable[[], int], seeds: int, workers: int) -> Iterator[Attempt]:
    """Yield the results in the order in which they complete; seeds are selected as late as possible."""
    if workers == 1:
        for _ in range(seeds):
            yield attempt(next_seed())
        return
    completed: SimpleQueue[Attempt | BaseException] = SimpleQueue()
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, _ignore_interrupts, maxtasksperchild=_SEEDS_PER_PROCESS) as pool:
        started = ended = 0
        while ended < seeds:
            while started < min(seeds, ended + workers * _WAITING_PER_WORKER):
                pool.apply_async(
                    attempt, (next_seed(),), callback=completed.put, error_callback=completed.put
                )
                started += 1
            result = completed.get(timeout=_LONGEST_RUN_S)
            if isinstance(result, BaseException):
                raise result
            ended += 1
            yield result


def _ignore_interrupts() -> None:
    """Let the parent process handle SIGINT, which the terminal sends to all processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _terminated_by_interrupt() -> Iterator[None]:
    """Handle SIGTERM as SIGINT within the block."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
