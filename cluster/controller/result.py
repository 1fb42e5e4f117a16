"""What a controller's command answers: records to append, and the reply for when they are durable.

Commands never change state: the records do, once they are in the metadata log and replayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from protocol.errors import ErrorCode, KafkaError
from protocol.schema import MetadataRecord

R = TypeVar("R")

MAX_RECORDS_PER_COMMAND: Final = 10_000
"""How many records one command may answer; Kafka's limit, so that a batch stays within its size."""


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[R]):
    """Records, in order, and the reply; no records when nothing is to change."""

    records: tuple[MetadataRecord, ...]
    reply: R

    def __post_init__(self) -> None:
        if len(self.records) > MAX_RECORDS_PER_COMMAND:
            text = f"{len(self.records)} metadata records at once, allowed are {MAX_RECORDS_PER_COMMAND}"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)


class Outcome(NamedTuple):
    """How one part of a request ended; `text` is None on success."""

    code: ErrorCode = ErrorCode.NONE
    text: str | None = None

    @classmethod
    def of(cls, error: KafkaError) -> Outcome:
        """The outcome that an error stands for."""
        return cls(error.code, str(error))


SUCCESS: Final = Outcome()
