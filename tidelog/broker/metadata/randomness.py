"""Chance for the controller's commands and for new ids, from the operating system.

Ids are Kafka's kind: 22 URL-safe base64 characters that do not begin with '-', which a command
line would take for an option, and none of the first hundred, which Kafka keeps for itself.
"""

from __future__ import annotations

import random
from typing import Final
from uuid import UUID, uuid4

from tidelog.protocol.ids import uuid_text

_RESERVED_IDS: Final = 100


class SystemRandomness:
    """See tidelog.cluster.controller.settings.Randomness."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1."""
        return self._random.randrange(bound)

    def uuid(self) -> UUID:
        """A new id that Kafka could have made too."""
        while True:
            candidate = uuid4()
            if candidate.int >= _RESERVED_IDS and not uuid_text(candidate).startswith("-"):
                return candidate
