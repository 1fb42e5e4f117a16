"""Sources of randomness, and new ids.

A simulation passes `random.Random(seed)`. A broker draws ids from `SYSTEM_RANDOMNESS`, and jitter from
`random.Random()`, which is cheaper.
"""

from __future__ import annotations

from random import SystemRandom
from typing import Final, Protocol
from uuid import UUID

_RESERVED_IDS: Final = 100
_HYPHEN: Final = 62
"""The value of '-' in URL-safe base64. The first character of an id encodes its highest 6 bits."""


class Randomness(Protocol):
    """A source of random numbers: the part of `random.Random` that the product uses."""

    def uniform(self, a: float, b: float) -> float:
        """Return a number between `a` and `b`."""
        ...

    def randrange(self, stop: int, /) -> int:
        """Return a number from 0 to `stop` - 1."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return a number of `k` random bits."""
        ...


SYSTEM_RANDOMNESS: Final[Randomness] = SystemRandom()
"""The source of randomness of the operating system."""


def new_uuid(randomness: Randomness) -> UUID:
    """Return a new version 4 id that Kafka accepts.

    Its text does not begin with '-', which a command would read as an option. It is not one of the first
    100 ids, which Kafka reserves.
    Source: org.apache.kafka.common.Uuid.randomUuid.
    """
    while True:
        candidate = UUID(int=randomness.getrandbits(128), version=4)
        if candidate.int >= _RESERVED_IDS and candidate.int >> 122 != _HYPHEN:
            return candidate
