"""The producer's identity for exactly-once writing to each partition: id, epoch and sequences.

Pure. The broker accepts batch N + 1 of a partition only after batch N. The response to a repeated
batch has the first result, so retries neither duplicate nor reorder records. The producer follows these
rules:

- A batch gets its sequence when it is first sent. The sequence does not change while it may have been
  written.
- While a batch is retried, only the first batch of its partition without a response is sent.
- Until the first batch of a partition is written, no other batch is sent there. A broker that does not know
  the producer accepts any first sequence. If it refused the first batch for a moment and accepted the second,
  the first one would stay out of order (KAFKA-14359, KAFKA-15591).
- A batch that expired after it was sent leaves its sequence *unresolved*: no new batch is sent until the
  results of the later batches show whether it was written.
- When a gap is certain, the epoch is bumped, and the sequences of that partition start at 0 again.

A batch is *in flight* from its first sending to its final result, also while it is queued for a retry.

Source: KIP-98, KIP-360 (epoch bump), TransactionManager of Kafka's clients.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import field
from typing import ClassVar

from tidelog.base.dataclass import dataclass
from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.clients.transactions.producer_id import ProducerIdAndEpoch
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import ProducerEpoch, ProducerId, TopicPartition

_SEQUENCES = 2**31
_EPOCH_MAX = 2**15 - 1
_NOTHING_ACKED = -1


def next_sequence(sequence: int, count: int) -> int:
    """Return `sequence + count`, which wraps to 0 after 2^31 - 1."""
    return (sequence + count) % _SEQUENCES


@dataclass(slots=True)
class _PartitionSequence:
    """The sequence state of one partition; `in_flight` is in sequence order."""

    producer: ProducerIdAndEpoch = field(default_factory=ProducerIdAndEpoch)
    next_sequence: int = 0
    last_acked_sequence: int = _NOTHING_ACKED
    last_acked_offset: int = -1
    in_flight: list[ProducerBatch] = field(default_factory=list)

    def start_at_beginning(self, producer: ProducerIdAndEpoch) -> None:
        """Start at sequence 0 under a new id or epoch; batches in flight get the first sequences."""
        sequence = 0
        for batch in self.in_flight:
            batch.set_producer_state(producer, sequence, reset=True)
            sequence = next_sequence(sequence, batch.record_count)
        self.producer = producer
        self.next_sequence = sequence
        self.last_acked_sequence = _NOTHING_ACKED

    @property
    def was_acked(self) -> bool:
        """Whether the broker knows the producer in this partition."""
        return self.last_acked_sequence != _NOTHING_ACKED

    def is_next(self, sequence: int) -> bool:
        """Return whether `sequence` follows the last acknowledged one."""
        return sequence == next_sequence(self.last_acked_sequence, 1)


class ProducerIdentity:
    """Assigns sequences to batches, and decides about errors that concern sequences."""

    is_transactional: ClassVar[bool] = False
    """Whether the transaction coordinator assigns the producer id."""

    def __init__(self) -> None:
        self._producer = ProducerIdAndEpoch()
        self._partitions: dict[TopicPartition, _PartitionSequence] = {}
        self._unresolved: dict[TopicPartition, int] = {}
        self._to_renumber: dict[TopicPartition, None] = {}

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The current id and epoch."""
        return self._producer

    @property
    def has_id(self) -> bool:
        """Whether there is a producer id; without an id no batch can be sent."""
        return self.producer.is_valid

    def set_id(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        """Use the id and epoch from an InitProducerId response."""
        self._producer = ProducerIdAndEpoch(producer_id, producer_epoch)

    def _forget_id(self) -> None:
        """Drop the id, so that a new one is requested."""
        self._producer = ProducerIdAndEpoch()

    def prepare(self) -> None:
        """Resolve sequences before sending, and bump the epoch if needed."""
        for topic_partition in list(self._unresolved):
            state = self._partitions[topic_partition]
            if not state.in_flight:
                if not state.is_next(state.next_sequence):
                    self._to_renumber[topic_partition] = None
                del self._unresolved[topic_partition]
        if self._to_renumber and self.has_id:
            self._bump_epoch()

    def can_send(self, batch: ProducerBatch) -> bool:
        """Return whether the first queued batch of a partition may be sent now."""
        if not self.has_id:
            return False
        state = self._partitions.get(batch.topic_partition)
        if state is None:
            return True
        if batch.has_sequence:
            return not state.in_flight or state.in_flight[0] is batch
        if batch.topic_partition in self._unresolved or batch.topic_partition in self._to_renumber:
            return False
        return not state.in_flight or (state.was_acked and not self._is_stale(state))

    def assign(self, batch: ProducerBatch) -> None:
        """Assign a sequence to a batch that is sent for the first time."""
        assert not batch.has_sequence and self.has_id
        state = self._partitions.setdefault(batch.topic_partition, _PartitionSequence())
        if self._is_stale(state):
            assert not state.in_flight
            state.start_at_beginning(self.producer)
        sequence = state.next_sequence
        batch.set_producer_state(self.producer, sequence, reset=False)
        state.next_sequence = next_sequence(sequence, batch.record_count)
        insort(state.in_flight, batch, key=lambda entry: entry.base_sequence)

    def on_completed(self, batch: ProducerBatch, base_offset: int) -> None:
        """Record that the batch was written, by this attempt or an earlier one."""
        state = self._partitions[batch.topic_partition]
        if batch.producer == state.producer:
            ahead = (batch.last_sequence - state.last_acked_sequence) % _SEQUENCES
            if ahead < _SEQUENCES // 2:
                state.last_acked_sequence = batch.last_sequence
        if base_offset >= 0:
            state.last_acked_offset = max(state.last_acked_offset, base_offset + batch.record_count - 1)
        self._remove(batch)

    def on_failed(self, batch: ProducerBatch, code: ErrorCode, *, surely_not_written: bool) -> None:
        """Remove a batch that has failed for good; a certain gap requires an epoch bump."""
        self._remove(batch)
        if code is ErrorCode.INVALID_PRODUCER_EPOCH or code is ErrorCode.PRODUCER_FENCED:
            self._to_renumber[batch.topic_partition] = None
            self._forget_id()
        elif surely_not_written or code in (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.UNKNOWN_PRODUCER_ID,
        ):
            self._to_renumber[batch.topic_partition] = None

    def on_expired(self, batch: ProducerBatch) -> None:
        """Remove an expired batch; if it was sent, its sequence becomes unresolved."""
        if not batch.has_sequence:
            return
        following = next_sequence(batch.last_sequence, 1)
        topic_partition = batch.topic_partition
        self._unresolved[topic_partition] = max(following, self._unresolved.get(topic_partition, following))
        self._remove(batch)

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Assign the sequences of a batch that was too large to its parts."""
        self._remove(batch)
        state = self._partitions[batch.topic_partition]
        sequence = batch.base_sequence
        for part in parts:
            part.set_producer_state(batch.producer, sequence, reset=False)
            sequence = next_sequence(sequence, part.record_count)
            insort(state.in_flight, part, key=lambda entry: entry.base_sequence)

    def can_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Return whether the batch may be sent again after this error; may require an epoch bump."""
        topic_partition = batch.topic_partition
        state = self._partitions[topic_partition]
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset != -1 and not batch.sequence_was_reset:
                self._to_renumber[topic_partition] = None
            return True
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            unresolved = self._unresolved.get(topic_partition)
            if unresolved is None:
                if not batch.sequence_was_reset and state.is_next(batch.base_sequence):
                    self._to_renumber[topic_partition] = None
            elif unresolved == batch.base_sequence:
                self._to_renumber[topic_partition] = None
            return True
        return code.retriable

    def _is_stale(self, state: _PartitionSequence) -> bool:
        return state.producer != self.producer

    def _bump_epoch(self) -> None:
        producer_id, producer_epoch = self._producer
        if producer_epoch >= _EPOCH_MAX:
            self._forget_id()
            return
        self._producer = ProducerIdAndEpoch(producer_id, producer_epoch + 1)
        for topic_partition in self._to_renumber:
            self._partitions[topic_partition].start_at_beginning(self._producer)
            self._unresolved.pop(topic_partition, None)
        self._to_renumber.clear()

    def _remove(self, batch: ProducerBatch) -> None:
        in_flight = self._partitions[batch.topic_partition].in_flight
        for index, entry in enumerate(in_flight):
            if entry is batch:
                del in_flight[index]
                return
