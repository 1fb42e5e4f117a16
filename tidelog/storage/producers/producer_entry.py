"""The state of one producer in a partition, and the rules by which its next batch is accepted.

| finding | error |
|---|---|
| epoch below the last seen one | INVALID_PRODUCER_EPOCH |
| new epoch that does not start with sequence 0 | OUT_OF_ORDER_SEQUENCE_NUMBER |
| same epoch, sequence is not the next (2^31 - 1 is followed by 0) | OUT_OF_ORDER_SEQUENCE_NUMBER |
| unknown producer | any sequence is accepted: its records may have been deleted (KIP-360) |
| write outside of a transaction while one is open | INVALID_TXN_STATE |
| marker of an older coordinator | TRANSACTION_COORDINATOR_FENCED |
| marker, transaction version 2, epoch not above the last seen one | INVALID_PRODUCER_EPOCH (KIP-890) |

Batches from a leader are not checked.
Source: ProducerStateEntry and ProducerAppendInfo of Apache Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import ATTRIBUTE_TRANSACTIONAL, BatchHeader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_PRODUCER_EPOCH, NO_SEQUENCE, Offset, ProducerEpoch, ProducerId
from tidelog.protocol.transaction_marker import EndTransactionMarker

BATCHES_REMEMBERED: Final = 5
NO_COORDINATOR_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
TRANSACTION_VERSION_2: Final = 2
"""The level of transaction.version from which each transaction has its own producer epoch."""
HIGHEST_PRODUCER_EPOCH: Final = 2**15 - 1

_SEQUENCES: Final = 2**31


class BatchMetadata(NamedTuple):
    """A batch in the log, for the response to a producer that sends it again."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record."""
        return (self.last_sequence - self.offset_delta) % _SEQUENCES

    @property
    def first_offset(self) -> Offset:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerEntry:
    """One producer's epoch, last batches and open transaction.

    Invariant: all of `batches` have `producer_epoch`; oldest first, at most BATCHES_REMEMBERED.
    Checks raise KafkaError and change nothing; the other methods change the entry and never fail.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    transaction_first_offset: Offset | None = None
    batches: list[BatchMetadata] = field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record in this epoch, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> Offset:
        """Offset of the last data record in this epoch, -1 if there is none."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        """Difference between the last and the first offset of the last batch."""
        return self.batches[-1].offset_delta if self.batches else 0

    def continues_with(self, header: BatchHeader) -> bool:
        """Return whether the batch follows the last one: no duplicate, not fenced, in sequence."""
        batches = self.batches
        return (
            bool(batches)
            and header.base_sequence == (batches[-1].last_sequence + 1) % _SEQUENCES
            and header.producer_epoch == self.producer_epoch
        )

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the cached batch with the same epoch and sequences; None if there is none."""
        if header.producer_epoch != self.producer_epoch:
            return None
        last_sequence = header.last_sequence
        for batch in reversed(self.batches):
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def check_epoch(self, header: BatchHeader, first_offset: Offset) -> None:
        """Raise KafkaError for a batch of a producer that was replaced by one with a newer epoch."""
        if header.producer_epoch < self.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {header.producer_epoch} of producer {self.producer_id} at offset {first_offset} "
                f"is below the last seen epoch {self.producer_epoch}",
            )

    def check_sequence(self, header: BatchHeader, first_offset: Offset) -> None:
        """Raise KafkaError for a batch that does not continue where the producer's last one ended."""
        known_epoch, base_sequence = self.producer_epoch, header.base_sequence
        if known_epoch == NO_PRODUCER_EPOCH:
            return
        # -1 + 1: after an epoch change only sequence 0 continues.
        last = self.last_sequence if header.producer_epoch == known_epoch else NO_SEQUENCE
        if base_sequence == (last + 1) % _SEQUENCES:
            return
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {base_sequence} of producer {self.producer_id} in epoch {header.producer_epoch} at "
            f"offset {first_offset} does not follow sequence {last} (last seen epoch {known_epoch})",
        )

    def check_transaction(self, header: BatchHeader, first_offset: Offset) -> None:
        """Raise KafkaError for a batch outside of a transaction while the producer has an open one."""
        if self.transaction_first_offset is not None and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {self.producer_id} writes without a transaction at offset {first_offset} while "
                f"its transaction from offset {self.transaction_first_offset} is open",
            )

    def check_marker(
        self,
        header: BatchHeader,
        first_offset: Offset,
        marker: EndTransactionMarker,
        transaction_version: int,
    ) -> None:
        """Raise KafkaError for a marker of a replaced producer or of a replaced coordinator."""
        if transaction_version < TRANSACTION_VERSION_2:
            self.check_epoch(header, first_offset)
        elif header.producer_epoch <= self.producer_epoch and not self._is_repeated_marker(header):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"marker with epoch {header.producer_epoch} of producer {self.producer_id} at offset "
                f"{first_offset} is not above the last seen epoch {self.producer_epoch}",
            )
        if marker.coordinator_epoch < self.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker for producer {self.producer_id} at offset {first_offset} has coordinator epoch "
                f"{marker.coordinator_epoch}, below the last seen {self.coordinator_epoch}",
            )

    def add_batch(self, header: BatchHeader, first_offset: Offset) -> bool:
        """Add a data batch that is in the log now; return whether it began a transaction."""
        # Unpacked, because each field of a named tuple costs more than all of them at once.
        _, _, _, _, _, attributes, offset_delta, _, timestamp, _, producer_epoch, first_sequence, _ = header
        if producer_epoch != self.producer_epoch:
            self._set_epoch(producer_epoch)
        batches = self.batches
        if len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        last_sequence = (
            NO_SEQUENCE if first_sequence == NO_SEQUENCE else (first_sequence + offset_delta) % _SEQUENCES
        )
        batches.append(BatchMetadata(last_sequence, first_offset + offset_delta, offset_delta, timestamp))
        self.last_timestamp = timestamp
        if attributes & ATTRIBUTE_TRANSACTIONAL and self.transaction_first_offset is None:
            self.transaction_first_offset = first_offset
            return True
        return False

    def end_transaction(self, producer_epoch: ProducerEpoch, marker: EndTransactionMarker) -> Offset | None:
        """Apply a marker that is in the log now; return the first offset of the transaction it ended.

        Return None if no transaction was open.
        """
        first_offset, self.transaction_first_offset = self.transaction_first_offset, None
        self._set_epoch(producer_epoch)
        self.coordinator_epoch = marker.coordinator_epoch
        self.last_timestamp = marker.timestamp
        return first_offset

    def _is_repeated_marker(self, header: BatchHeader) -> bool:
        """Return whether a coordinator wrote its marker again: none is open, or the epoch cannot rise."""
        return header.producer_epoch == self.producer_epoch and (
            self.transaction_first_offset is None or header.producer_epoch == HIGHEST_PRODUCER_EPOCH
        )

    def _set_epoch(self, producer_epoch: ProducerEpoch) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch
