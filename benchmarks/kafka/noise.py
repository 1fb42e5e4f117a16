"""The disturbance of the machine: the time of a fixed amount of work on all cores, between the cases."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

BLOCK: Final = bytes(1024 * 1024)
BLOCKS: Final = 24
NOISY_FROM: Final = 1.25


def calibration_seconds() -> float:
    """Hash `BLOCKS` MiB in one thread for each core; return the time until all have finished."""
    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        started = time.perf_counter()
        list(pool.map(_hash, range(cores)))
        return time.perf_counter() - started


def _hash(_: int) -> None:
    # hashlib releases the interpreter's lock for blocks of this size.
    digest = hashlib.sha256()
    for _ in range(BLOCKS):
        digest.update(BLOCK)


class NoiseMeter:
    """Compares each calibration with the fastest one of the run."""

    def __init__(self, fastest_s: float | None = None) -> None:
        self.fastest_s = fastest_s if fastest_s is not None else min(calibration_seconds() for _ in range(5))

    def measure(self) -> float:
        """Return how many times longer the fixed work takes now: 1.0 on a quiet machine."""
        taken_s = min(calibration_seconds() for _ in range(2))
        self.fastest_s = min(self.fastest_s, taken_s)
        return taken_s / self.fastest_s
