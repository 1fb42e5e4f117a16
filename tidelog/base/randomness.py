"""The interfaces through which the product draws random numbers; tests and simulations repeat them.

A `random.Random` implements both.
"""

from __future__ import annotations

from typing import Protocol


class RandomSource(Protocol):
    """Draws the jitter of delays."""

    def uniform(self, a: float, b: float) -> float:
        """Return a number between `a` and `b`."""


class RandomChoice(Protocol):
    """Draws one of several choices."""

    def randrange(self, stop: int, /) -> int:
        """Return an integer in 0..stop-1."""
