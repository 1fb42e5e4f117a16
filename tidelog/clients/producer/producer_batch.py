"""One batch of records on its way to one partition, with the deliveries that wait for its fate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from tidelog.protocol.batch import read_header, write_header
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from tidelog.protocol.record import BatchBuilder, Record, RecordHeader, read_records

_SEQUENCES = 2**31


class RecordMetadata(NamedTuple):
    """Where a record was written; `offset` is -1 when the broker did not say (acks=0, duplicate)."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int


class Delivery(Protocol):
    """What waits for one record's fate; an asyncio future is one."""

    def done(self) -> bool:
        """Whether nobody waits any more."""

    def set_result(self, result: Any, /) -> None:
        """The record was written; `result` is a RecordMetadata."""

    def set_exception(self, exception: BaseException, /) -> None:
        """The record was not written."""

    def exception(self) -> BaseException | None:
        """Why it was not written; asking counts as having taken notice."""


class ProducerBatch:
    """Records for `topic_partition`.

    Life: open (records are appended) -> closed (`payload` is built) -> done. Producer id, epoch and
    sequence are stamped into the payload, so a retry sends the same bytes.
    `serial` grows with every batch made; parts of a split batch keep the serial of the whole.
    """

    __slots__ = (
        "attempts",
        "base_sequence",
        "builder",
        "created_ms",
        "deliveries",
        "done",
        "leader_epoch",
        "payload",
        "producer_epoch",
        "producer_id",
        "reserved_bytes",
        "retry_at_ms",
        "sequence_was_reset",
        "serial",
        "timestamps",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        builder: BatchBuilder,
        *,
        created_ms: int,
        reserved_bytes: int,
        serial: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.builder = builder
        self.created_ms = created_ms
        self.reserved_bytes = reserved_bytes
        self.serial = serial
        self.deliveries: list[Delivery] = []
        self.timestamps: list[int] = []
        self.attempts = 0
        self.retry_at_ms = 0
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.payload: bytearray | None = None
        self.producer_id: ProducerId = NO_PRODUCER_ID
        self.producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.sequence_was_reset = False
        self.done = False

    @property
    def record_count(self) -> int:
        """How many records it holds."""
        return len(self.deliveries)

    @property
    def has_sequence(self) -> bool:
        """Whether it has been given a place in its producer's sequence."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record."""
        return (self.base_sequence + self.record_count - 1) % _SEQUENCES

    @property
    def size_bytes(self) -> int:
        """Bytes of the payload, before it is built an estimate without compression."""
        return self.builder.estimated_size_bytes if self.payload is None else len(self.payload)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[RecordHeader],
        delivery: Delivery,
    ) -> None:
        """Add one record; only while open."""
        self.builder.append(timestamp, key, value, headers)
        self.deliveries.append(delivery)
        self.timestamps.append(timestamp)

    def close(self) -> bytearray:
        """Build the payload, once."""
        if self.payload is None:
            self.payload = self.builder.build()
            if self.has_sequence:
                self._stamp()
        return self.payload

    def set_producer_state(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch, base_sequence: int, *, reset: bool
    ) -> None:
        """Give it a place in the sequence; `reset` when it had another one before."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.sequence_was_reset = reset
        if self.payload is not None:
            self._stamp()

    def complete(self, base_offset: Offset, log_append_time: int) -> bool:
        """Tell every delivery where its record is; False if the batch was done already."""
        if self.done:
            return False
        self.done = True
        topic, partition = self.topic_partition
        new = tuple.__new__
        offset = base_offset
        step = 0 if base_offset < 0 else 1
        for delivery, timestamp in zip(self.deliveries, self.timestamps, strict=True):
            if not delivery.done():
                written_ms = timestamp if log_append_time < 0 else log_append_time
                delivery.set_result(new(RecordMetadata, (topic, partition, offset, written_ms)))
            offset += step
        return True

    def fail(self, error: KafkaError) -> bool:
        """Tell every delivery that its record was not written; False if the batch was done already.

        The caller logs it, so that a loss does not go unseen where nobody awaits deliveries.
        """
        if self.done:
            return False
        self.done = True
        for delivery in self.deliveries:
            if not delivery.done():
                delivery.set_exception(KafkaError(error.code, str(error)))
                # Else asyncio complains once a record when the application drops its futures.
                delivery.exception()
        return True

    def records(self) -> list[Record]:
        """The records of the closed batch, for splitting it."""
        assert self.payload is not None
        return read_records(self.payload)

    def _stamp(self) -> None:
        assert self.payload is not None
        header = read_header(self.payload)._replace(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
        )
        write_header(self.payload, 0, header)


def new_builder(
    compression: Compression, compression_level: int | None, is_transactional: bool = False
) -> BatchBuilder:
    """A builder for a batch whose producer state comes later."""
    return BatchBuilder(
        compression=compression, compression_level=compression_level, is_transactional=is_transactional
    )
