"""One batch of records for one partition, with the futures that wait for its result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from tidelog.clients.transactions.producer_id import ProducerIdAndEpoch
from tidelog.clients.transport.failures import copy_of
from tidelog.protocol.batch import read_header, write_header
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import (
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from tidelog.protocol.record import Record, RecordHeader, read_records

_SEQUENCES = 2**31


class RecordMetadata(NamedTuple):
    """The position of a record; `offset` is -1 if the broker did not return it (acks=0, duplicate)."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int


class Delivery(Protocol):
    """Receives the result of one record; an asyncio future in production."""

    def done(self) -> bool:
        """Return whether there is a result, or the future was cancelled."""

    def set_result(self, result: Any, /) -> None:
        """Set the RecordMetadata of a written record."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Set the error of a record that was not written."""

    def exception(self) -> BaseException | None:
        """Return the error; asyncio then does not report it as never retrieved."""


class ProducerBatch:
    """A batch of records for `topic_partition`.

    It is open (records are appended), then closed (`payload` is built), then done. Producer id, epoch and
    sequence are written into the payload, so a retry sends the same bytes.
    `serial` increases with every batch; the parts of a split batch keep its serial. `last_error` is the error
    after which the batch was sent again.
    """

    __slots__ = (
        "attempts",
        "base_sequence",
        "builder",
        "created_ms",
        "deliveries",
        "is_done",
        "last_error",
        "leader_epoch",
        "payload",
        "producer",
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
        attempts: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.builder = builder
        self.created_ms = created_ms
        self.reserved_bytes = reserved_bytes
        self.serial = serial
        self.deliveries: list[Delivery] = []
        self.timestamps: list[int] = []
        self.attempts = attempts
        self.retry_at_ms = 0
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.payload: bytearray | None = None
        self.producer = ProducerIdAndEpoch()
        self.base_sequence = NO_SEQUENCE
        self.sequence_was_reset = False
        self.is_done = False
        self.last_error = ""

    @property
    def record_count(self) -> int:
        """The number of records."""
        return len(self.deliveries)

    @property
    def has_sequence(self) -> bool:
        """Whether a sequence has been assigned."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record."""
        return (self.base_sequence + self.record_count - 1) % _SEQUENCES

    @property
    def size_bytes(self) -> int:
        """The size of the payload; before it is built, an estimate without compression."""
        return self.builder.estimated_size_bytes if self.payload is None else len(self.payload)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[RecordHeader],
        delivery: Delivery,
    ) -> None:
        """Append one record to an open batch."""
        self.builder.append(timestamp, key, value, headers)
        self.deliveries.append(delivery)
        self.timestamps.append(timestamp)

    def drain(self, leader_epoch: LeaderEpoch) -> bytearray:
        """Return the payload, which is sent to the leader of `leader_epoch`."""
        self.leader_epoch = leader_epoch
        return self.close()

    def retry(self, at_ms: int) -> None:
        """Count another attempt, which begins at `at_ms`."""
        self.retry_at_ms = at_ms
        self.attempts += 1

    def close_part(self, now_ms: int) -> None:
        """Build the payload of a part of a split batch, which is sent at `now_ms`; reserve its size."""
        self.reserved_bytes = self.builder.estimated_size_bytes
        self.retry_at_ms = now_ms
        self.close()

    def on_retriable_error(self, text: str) -> None:
        """Keep the error after which the batch is sent again."""
        self.last_error = text

    def close(self) -> bytearray:
        """Build the payload at the first call; return it."""
        if self.payload is None:
            self.payload = self.builder.build()
            if self.has_sequence:
                self._stamp()
        return self.payload

    def set_producer_state(self, producer: ProducerIdAndEpoch, base_sequence: int, *, reset: bool) -> None:
        """Set the producer and the sequence; `reset` if the batch had another sequence before."""
        self.producer = producer
        self.base_sequence = base_sequence
        self.sequence_was_reset = reset
        if self.payload is not None:
            self._stamp()

    def complete(self, base_offset: Offset, log_append_time: int) -> bool:
        """Set the result of every delivery; return False if the batch was already done."""
        if self.is_done:
            return False
        self.is_done = True
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
        """Set the error of every delivery; return False if the batch was already done.

        The caller also logs the loss, because the application may not await the deliveries.
        """
        if self.is_done:
            return False
        self.is_done = True
        for delivery in self.deliveries:
            if not delivery.done():
                delivery.set_exception(copy_of(error))
                # Otherwise asyncio logs an error for each future that the application drops.
                delivery.exception()
        return True

    def mark_split(self) -> None:
        """Mark the batch as done, because its parts have its deliveries."""
        self.is_done = True

    def records(self) -> list[Record]:
        """Return the records of the closed batch, in order to split it."""
        assert self.payload is not None
        return read_records(self.payload)

    def _stamp(self) -> None:
        assert self.payload is not None
        header = read_header(self.payload)._replace(
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=self.base_sequence,
        )
        write_header(self.payload, 0, header)


def new_builder(
    compression: Compression, compression_level: int | None, is_transactional: bool = False
) -> BatchBuilder:
    """Return a builder for a batch whose producer state is set later."""
    return BatchBuilder(
        compression=compression,
        compression_level=compression_level,
        producer=BatchProducer(is_transactional=is_transactional),
    )
