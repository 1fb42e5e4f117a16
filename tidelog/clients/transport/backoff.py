"""How long to wait before the next attempt: exponential, bounded, with jitter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class RandomSource(Protocol):
    """The one thing that jitter needs of a random generator."""

    def uniform(self, a: float, b: float) -> float:
        """A number between `a` and `b`."""


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """`initial_ms * 2 ** attempt`, at most `max_ms`, times 1 +- `jitter`.

    Source: KIP-580 (multiplier 2, jitter 0.2).
    """

    initial_ms: int
    max_ms: int
    jitter: float = 0.2

    def delay_ms(self, attempt: int, rng: RandomSource) -> int:
        """The delay after `attempt` failures before the latest one (0 is the first failure)."""
        base = min(self.initial_ms * 2 ** min(attempt, 30), max(self.initial_ms, self.max_ms))
        return int(base * rng.uniform(1 - self.jitter, 1 + self.jitter))
