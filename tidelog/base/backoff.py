"""The delay before the next attempt: exponential, bounded, with jitter."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.base.randomness import Randomness


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Delays of `initial_ms * 2 ** attempt`, at most `max_ms`, each multiplied by 1 +- `jitter`.

    Source: KIP-580 (multiplier 2, jitter 0.2).
    """

    initial_ms: int
    max_ms: int
    jitter: float = 0.2

    def delay_ms(self, attempt: int, rng: Randomness) -> int:
        """Return the delay after a failure; `attempt` counts the failures before it, so the first is 0."""
        base = min(self.initial_ms * 2 ** min(attempt, 30), max(self.initial_ms, self.max_ms))
        return int(base * rng.uniform(1 - self.jitter, 1 + self.jitter))
