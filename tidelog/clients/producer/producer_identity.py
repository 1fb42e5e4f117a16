"""The producer's identity for exactly-once writing to each partition: id, epoch and sequences.

Pure. The broker accepts batch N + 1 of a partition only after batch N and answers a repeated batch
with its first result, so retries neither duplicate nor reorder. What is left to us:

- sequences are given when a batch is first sent and never change while it may have been written;
- while a batch is being retried, only the first unanswered batch of its partition is sent;
- until the first batch of a partition is written, no other follows it: a broker that does not know the
  producer takes whatever sequence comes first, and one that had refused the first for a moment would
  then find it out of order for ever (KAFKA-14359, KAFKA-15591);
- a batch given up after it was sent leaves its sequence *unresolved*: nothing new is sent until the
  batches behind it tell whether it was written;
- when a gap is certain, the epoch is bumped and that partition's sequences start at 0 again.

Words: a batch is *in flight* from its first sending until its final result, also while it waits in
the queue for a retry.

Source: KIP-98, KIP-360 (epoch bump), TransactionManager of Kafka's clients.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import ClassVar

from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId, TopicPartition

_SEQUENCES = 2**31
_EPOCH_MAX = 2**15 - 1
_NOTHING_ACKED = -1


def next_sequence(sequence: int, count: int) -> int:
    """`sequence + count`, wrapping to 0 after 2^31 - 1."""
    return (sequence + count) % _SEQUENCES


@dataclass(slots=True)
class _PartitionSequence:
    """Sequence state of one partition; `in_flight` is in sequence order."""

    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    next_sequence: int = 0
    last_acked_sequence: int = _NOTHING_ACKED
    last_acked_offset: int = -1
    in_flight: list[ProducerBatch] = field(default_factory=list)

    def start_at_beginning(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        """Renumber from 0 under a new identity, the batches in flight first."""
        sequence = 0
        for batch in self.in_flight:
            batch.set_producer_state(producer_id, producer_epoch, sequence, reset=True)
            sequence = next_sequence(sequence, batch.record_count)
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.next_sequence = sequence
        self.last_acked_sequence = _NOTHING_ACKED

    @property
    def was_acked(self) -> bool:
        """Whether the broker knows the producer in this partition."""
        return self.last_acked_sequence != _NOTHING_ACKED

    def is_next(self, sequence: int) -> bool:
        """Whether `sequence` follows the last acknowledged one."""
        return sequence == next_sequence(self.last_acked_sequence, 1)


class ProducerIdentity:
    """Gives out sequences and judges errors that concern them."""

    is_transactional: ClassVar[bool] = False
    """Whether a coordinator gives the id, not any broker."""

    def __init__(self) -> None:
        self.producer_id: ProducerId = NO_PRODUCER_ID
        self.producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
        self._partitions: dict[TopicPartition, _PartitionSequence] = {}
        self._unresolved: dict[TopicPartition, int] = {}
        self._to_renumber: dict[TopicPartition, None] = {}

    @property
    def has_id(self) -> bool:
        """Whether a producer id is held; without one nothing can be sent."""
        return self.producer_id != NO_PRODUCER_ID

    def set_id(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        """Take what InitProducerId answered."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def forget_id(self) -> None:
        """Drop the identity, so that a new one is asked for."""
        self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH

    def prepare(self) -> None:
        """Settle what can be settled before sending: resolved sequences, then a wanted epoch bump."""
        for topic_partition in list(self._unresolved):
            state = self._partitions[topic_partition]
            if not state.in_flight:
                if not state.is_next(state.next_sequence):
                    self._to_renumber[topic_partition] = None
                del self._unresolved[topic_partition]
        if self._to_renumber and self.has_id:
            self._bump_epoch()

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether the first queued batch of a partition may be sent now."""
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
        """Give the batch its sequence when it is first sent."""
        assert not batch.has_sequence and self.has_id
        state = self._partitions.setdefault(batch.topic_partition, _PartitionSequence())
        if self._is_stale(state):
            assert not state.in_flight
            state.start_at_beginning(self.producer_id, self.producer_epoch)
        sequence = state.next_sequence
        batch.set_producer_state(self.producer_id, self.producer_epoch, sequence, reset=False)
        state.next_sequence = next_sequence(sequence, batch.record_count)
        insort(state.in_flight, batch, key=lambda entry: entry.base_sequence)

    def completed(self, batch: ProducerBatch, base_offset: int) -> None:
        """The batch was written (perhaps by an earlier attempt)."""
        state = self._partitions[batch.topic_partition]
        if (batch.producer_id, batch.producer_epoch) == (state.producer_id, state.producer_epoch):
            ahead = (batch.last_sequence - state.last_acked_sequence) % _SEQUENCES
            if ahead < _SEQUENCES // 2:
                state.last_acked_sequence = batch.last_sequence
        if base_offset >= 0:
            state.last_acked_offset = max(state.last_acked_offset, base_offset + batch.record_count - 1)
        self._remove(batch)

    def failed(self, batch: ProducerBatch, code: ErrorCode, *, surely_not_written: bool) -> None:
        """The batch has failed for good; a certain gap asks for an epoch bump."""
        self._remove(batch)
        if code is ErrorCode.INVALID_PRODUCER_EPOCH or code is ErrorCode.PRODUCER_FENCED:
            self._to_renumber[batch.topic_partition] = None
            self.forget_id()
        elif surely_not_written or code in (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.UNKNOWN_PRODUCER_ID,
        ):
            self._to_renumber[batch.topic_partition] = None

    def given_up(self, batch: ProducerBatch) -> None:
        """The batch expired: if it was sent, nobody knows whether it was written."""
        if not batch.has_sequence:
            return
        behind = next_sequence(batch.last_sequence, 1)
        topic_partition = batch.topic_partition
        self._unresolved[topic_partition] = max(behind, self._unresolved.get(topic_partition, behind))
        self._remove(batch)

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Put the parts of a batch that was too large in its place in the sequence."""
        self._remove(batch)
        state = self._partitions[batch.topic_partition]
        sequence = batch.base_sequence
        for part in parts:
            part.set_producer_state(batch.producer_id, batch.producer_epoch, sequence, reset=False)
            sequence = next_sequence(sequence, part.record_count)
            insort(state.in_flight, part, key=lambda entry: entry.base_sequence)

    def may_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Whether the batch may be sent again after this error; may ask for an epoch bump."""
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
        return (state.producer_id, state.producer_epoch) != (self.producer_id, self.producer_epoch)

    def _bump_epoch(self) -> None:
        if self.producer_epoch >= _EPOCH_MAX:
            self.forget_id()
            return
        self.producer_epoch += 1
        for topic_partition in self._to_renumber:
            self._partitions[topic_partition].start_at_beginning(self.producer_id, self.producer_epoch)
            self._unresolved.pop(topic_partition, None)
        self._to_renumber.clear()

    def _remove(self, batch: ProducerBatch) -> None:
        in_flight = self._partitions[batch.topic_partition].in_flight
        for index, entry in enumerate(in_flight):
            if entry is batch:
                del in_flight[index]
                return
