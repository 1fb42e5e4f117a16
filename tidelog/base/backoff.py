"""The delay before the next attempt: exponential, bounded, with jitter."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Delays of `initial_ms * 2 ** attempt`, at most `max_ms`, each multiplied by 1 +- `jitter`.

    Source: KIP-580 (multiplier 2, jitter 0.2).
    """

    initial_ms: int
    max_ms: int
    jitter: float = 0.2

    def base_delay_ms(self, attempt: int) -> int:
        """Return the delay without jitter; `attempt` counts the failures before this one: the first is 0."""
        # The exponent is limited, because the delay has reached its maximum much earlier.
        return min(self.initial_ms << min(attempt, 30), max(self.initial_ms, self.max_ms))

    def delay_ms(self, attempt: int, rng: Randomness) -> int:
        """Return the delay with jitter; `attempt` counts the failures before this one: the first is 0."""
        return int(self.base_delay_ms(attempt) * rng.uniform(1 - self.jitter, 1 + self.jitter))
