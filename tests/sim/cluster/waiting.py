"""Waits in virtual time for conditions that take long to evaluate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.testing.simulation.simulation import Simulation

LOOK_EVERY_S: Final = 0.5


def wait_until(simulation: Simulation, is_done: Callable[[], bool], limit_s: float) -> bool:
    """Let time pass until `is_done`, which is called twice in a second; return False after `limit_s`."""
    deadline_s = simulation.now_s + limit_s
    while not is_done():
        if simulation.now_s >= deadline_s:
            return False
        simulation.run_for(LOOK_EVERY_S)
    return True
