"""What a controller's command answers: records to append, and the reply for when they are durable.

Commands never change state: the records do, once they are in the metadata log and replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.schema import MetadataRecord

R = TypeVar("R")

MAX_RECORDS_PER_COMMAND: Final = 10_000
"""How many records a batch of the metadata log may have; Kafka's limit, so that it stays within its size."""


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[R]):
    """Records, in order, and the reply; no records when nothing is to change.

    An atomic result must fit one batch. Any other may take effect in steps, each of which leaves
    the metadata sound: a broker that is fenced may take more partitions along than a batch holds.
    """

    records: tuple[MetadataRecord, ...]
    reply: R
    is_atomic: bool = True

    def batches(self) -> Iterator[tuple[MetadataRecord, ...]]:
        """Yield the records in batches for the metadata log; no batch without records."""
        for start in range(0, len(self.records), MAX_RECORDS_PER_COMMAND):
            yield self.records[start : start + MAX_RECORDS_PER_COMMAND]

    def __post_init__(self) -> None:
        if self.is_atomic and len(self.records) > MAX_RECORDS_PER_COMMAND:
            text = f"{len(self.records)} metadata records at once, allowed are {MAX_RECORDS_PER_COMMAND}"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)


class Outcome(NamedTuple):
    """How one part of a request ended; `text` is None on success."""

    code: ErrorCode = ErrorCode.NONE
    text: str | None = None

    @classmethod
    def of(cls, error: KafkaError) -> Outcome:
        """Return the outcome for an error."""
        return cls(error.code, str(error))


SUCCESS: Final = Outcome()
