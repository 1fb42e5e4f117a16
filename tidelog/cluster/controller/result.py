"""The result of a controller's command: records to append, and the reply once they are committed.

Commands never change state; the records do, when they are replayed from the metadata log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.schema import MetadataRecord

R = TypeVar("R")

MAX_RECORDS_PER_COMMAND: Final = 10_000
"""The limit of records in a batch of the metadata log; Kafka's, which keeps it below the maximum size."""

RECORDS_PER_STEP: Final = 1_000
"""The records of one batch of a result that is not atomic: nodes apply each batch in about 10 ms."""


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[R]):
    """The records of a command, in order, and its reply; there are no records if nothing changes.

    An atomic result must fit in one batch. Any other may take effect in steps that each leave the metadata
    consistent: fencing a broker may change many thousand partitions.
    """

    records: tuple[MetadataRecord, ...]
    reply: R
    is_atomic: bool = True

    def batches(self) -> Iterator[tuple[MetadataRecord, ...]]:
        """Yield the records in batches for the metadata log; no batch without records."""
        batch_size = MAX_RECORDS_PER_COMMAND if self.is_atomic else RECORDS_PER_STEP
        for start in range(0, len(self.records), batch_size):
            yield self.records[start : start + batch_size]

    def __post_init__(self) -> None:
        if self.is_atomic and len(self.records) > MAX_RECORDS_PER_COMMAND:
            text = (
                f"the change has {len(self.records)} metadata records, the limit is {MAX_RECORDS_PER_COMMAND}"
            )
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)


class Outcome(NamedTuple):
    """The outcome of one part of a request; `text` is None on success."""

    code: ErrorCode = ErrorCode.NONE
    text: str | None = None

    @classmethod
    def of(cls, error: KafkaError) -> Outcome:
        """Return the outcome for `error`."""
        return cls(error.code, str(error))


SUCCESS: Final = Outcome()
