"""Runs of many seeds in a test, and of some seeds in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import TypeVar

from tests.support.paths import ROOT

OutcomeT = TypeVar("OutcomeT")


def chunks_of_seeds(count: int, size: int) -> list[range]:
    """Return the seeds from 0 to `count`, at most `size` for each test."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def run_all(seeds: range, run: Callable[[int], OutcomeT]) -> list[OutcomeT]:
    """Return the outcome of each seed; raise AssertionError with the messages of all seeds that failed."""
    outcomes, failures = [], []
    for seed in seeds:
        try:
            outcomes.append(run(seed))
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)
    return outcomes


def output_of(program: str, hash_seed: int) -> str:
    """Return the output of a program in a new process, in which sets of strings have another order."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
