"""The types of the numbers and names that every layer uses.

The types are aliases, not wrappers: they show the meaning of a number, at no cost.
"""

from __future__ import annotations

import base64
import re
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

Offset: TypeAlias = int
LeaderEpoch: TypeAlias = int
BrokerId: TypeAlias = int
ProducerId: TypeAlias = int
ProducerEpoch: TypeAlias = int

NO_LEADER_EPOCH: LeaderEpoch = -1
ENDLESS: Final[Offset] = 2**63 - 1
"""An end offset beyond every offset, for a range without an end."""
NO_PRODUCER_ID: ProducerId = -1
NO_PRODUCER_EPOCH: ProducerEpoch = -1
NO_SEQUENCE: int = -1

_UUID_TEXT: Final = re.compile(r"[A-Za-z0-9_-]{22}")


class TopicPartition(NamedTuple):
    """A partition by topic name; its text, `topic-3`, is also the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(value: UUID) -> str:
    """Return `value` as Kafka prints ids: 22 URL-safe base64 characters without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_from_text(text: str) -> UUID:
    """Return the id that is printed as `text`.

    Errors: ValueError if `text` is not 22 URL-safe base64 characters.
    """
    if not _UUID_TEXT.fullmatch(text):
        raise ValueError(f"{text!r} is not an id: expected 22 URL-safe base64 characters")
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
