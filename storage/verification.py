"""What a partition waits for before a producer's first batch of a transaction (KIP-890).

A batch that arrives late must not open a transaction that its coordinator does not know of: nobody would
ever end it. So the coordinator is asked first, and meanwhile this stands for the question:

    begun -> the coordinator says yes -> the batch is appended, the verification is over
          -> a marker is appended first: the verification is over, the batch is refused
          -> the coordinator says no, or nothing: the next attempt goes on with the same verification

A verification is good for one transaction: it is compared by identity, so that an answer that comes too
late cannot let a batch into a later one.

Source: VerificationStateEntry and VerificationGuard of Apache Kafka 4.3; KIP-890.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from protocol.batch import BatchHeader
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId


@dataclass(slots=True, eq=False)
class Verification:
    """One producer's first batch of a transaction, which its coordinator is asked about.

    `begun_ms` is wall time. `supports_epoch_bump`: the producer has a new epoch for each transaction
    (transaction.version 2), so that its sequences begin with 0.
    """

    producer_id: ProducerId
    begun_ms: int
    lowest_sequence: int
    epoch: ProducerEpoch
    supports_epoch_bump: bool

    def saw(self, sequence: int, epoch: ProducerEpoch) -> None:
        """Another batch wants in: the lowest sequence of the newest epoch must be the first."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def check_sequence(self, header: BatchHeader, first_offset: Offset, *, is_producer_known: bool) -> None:
        """Refuse a batch that is not the transaction's first: OUT_OF_ORDER_SEQUENCE_NUMBER.

        `is_producer_known`: batches of its epoch are remembered.
        """
        first = header.base_sequence
        if self.supports_epoch_bump and first != 0 and not is_producer_known:
            expected = 0
        elif first > self.lowest_sequence:
            expected = self.lowest_sequence
        else:
            return
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {first} of producer {self.producer_id} at offset {first_offset} is not the first of "
            f"its transaction, {expected} is",
        )


NO_VERIFICATION: Final = Verification(NO_PRODUCER_ID, -1, -1, NO_PRODUCER_EPOCH, False)
"""None was begun, because the transaction was open here: if it is not any more the batch is refused."""
