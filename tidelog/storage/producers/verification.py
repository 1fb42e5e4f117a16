"""The verification of a producer's transaction before its first batch in a partition (KIP-890).

A batch that arrives late must not open a transaction that its coordinator does not know, because no marker
would ever end it. The leader therefore sends a request to the coordinator first. A `Verification` tracks it:

    begun -> the coordinator confirms -> the batch is appended, which ends the verification
          -> a marker ends it first: the batch is refused with a retriable error, and is verified again
          -> the coordinator refuses, or is unreachable: the next attempt continues the same verification

Which markers end a verification:

| transaction.version of the marker | it ends | because it has |
|---|---|---|
| 0, 1 or unknown | all of its producer | the epoch of its transaction, maybe the verified one |
| 2 | those of a lower epoch | a higher epoch than its transaction (KIP-890) |

A marker of version 2 with the epoch of the verification ended the transaction before the verified one. The
marker of the verified one raises the producer's epoch in the log, so that the check of epochs refuses batches
that come after it. The highest epoch cannot be raised: a marker with it ends every verification.

Verifications are compared by identity, so that a response that comes too late cannot admit a batch to a later
transaction. A leader that becomes a follower drops its verifications.

Source: VerificationStateEntry, VerificationGuard and UnifiedLog of Apache Kafka 4.3; KIP-890.
"""

from __future__ import annotations

from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId
from tidelog.storage.producers.producer_entry import (
    HIGHEST_PRODUCER_EPOCH,
    TRANSACTION_VERSION_2,
    ProducerEntry,
)


@dataclass(slots=True, eq=False)
class Verification:
    """The verification that one producer's transaction may begin in a partition.

    `begun_ms` is wall time. `epoch` is the highest epoch among the batches that wait, `lowest_sequence` the
    lowest sequence of that epoch. `supports_epoch_bump`: the producer has a new epoch for each transaction
    (transaction.version 2), so that its sequences begin with 0.
    """

    producer_id: ProducerId
    begun_ms: int
    lowest_sequence: int
    epoch: ProducerEpoch
    supports_epoch_bump: bool

    def add_batch(self, sequence: int, epoch: ProducerEpoch, *, supports_epoch_bump: bool) -> None:
        """Add a waiting batch; of the highest epoch the lowest sequence must be appended first."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
            self.supports_epoch_bump = supports_epoch_bump
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def is_ended_by_marker(self, marker_epoch: ProducerEpoch, transaction_version: int) -> bool:
        """Return whether a marker in the log ends this verification; see the module."""
        return (
            transaction_version < TRANSACTION_VERSION_2
            or marker_epoch > self.epoch
            or marker_epoch == HIGHEST_PRODUCER_EPOCH
        )

    def check_sequence(
        self, header: BatchHeader, first_offset: Offset, known_as: ProducerEntry | None
    ) -> None:
        """Refuse a batch that is not the transaction's first: OUT_OF_ORDER_SEQUENCE_NUMBER.

        `known_as` is the producer's entry in the log, None if there is none. If there is one, its check
        decides, and a late duplicate with a lower sequence must not keep the next batch out.
        """
        first = header.base_sequence
        if self.supports_epoch_bump and first != 0 and (known_as is None or not known_as.batches):
            expected = 0
        elif known_as is None and first > self.lowest_sequence:
            expected = self.lowest_sequence
        else:
            return
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {first} of producer {self.producer_id} at offset {first_offset} is not the first of "
            f"its transaction, {expected} is",
        )


NO_VERIFICATION: Final = Verification(NO_PRODUCER_ID, -1, -1, NO_PRODUCER_EPOCH, False)
"""No verification began because the transaction was open: if it has ended since, the batch is refused."""
