"""Decides what happens to each batch that was sent: it is complete, sent again, split, or failed.

Pure. Owns the accumulator and the producer's identity, and tracks which batches are in flight. The sender
calls `expire` and `drain`, sends `produce_request`, and passes each result to `on_result`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tidelog.base.count_text import count_text
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.producer.accumulator import PartitionQueue, Readiness, RecordAccumulator
from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.clients.producer.producer_identity import ProducerIdentity
from tidelog.clients.transport.failures import STALE_METADATA, copy_of, failure, known_code
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

_log = logging.getLogger("tidelog.clients.producer.producer")


class BatchResult(NamedTuple):
    """The broker's result for one batch; -1 for values that it did not return."""

    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class ProduceCore:
    """The batches of one producer, from the accumulator to their results.

    `retries`: how often a batch is sent again. `keep_order`: mute a partition while a request is in flight,
    which keeps the order for producers without idempotence.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        identity: ProducerIdentity | None,
        *,
        retries: int,
        delivery_timeout_ms: int,
        max_request_size: int,
        keep_order: bool,
    ) -> None:
        self.accumulator = accumulator
        self.identity = identity
        self._retries = retries
        self._delivery_timeout_ms = delivery_timeout_ms
        self._max_request_size = max_request_size
        self._keep_order = keep_order
        self._sent: dict[ProducerBatch, None] = {}

    def ready(self, metadata: ClusterMetadata, now_ms: int) -> Readiness:
        """Prepare the producer's identity, then return `RecordAccumulator.ready`."""
        if self.identity is not None:
            self.identity.prepare()
        return self.accumulator.ready(metadata, now_ms)

    def drain(self, queues: Iterable[PartitionQueue], metadata: ClusterMetadata) -> list[ProducerBatch]:
        """Return the batches of the next request to one node; they are then in flight."""
        batches = self.accumulator.drain(queues, metadata, self._max_request_size)
        for batch in batches:
            self._sent[batch] = None
            if self._keep_order:
                self.accumulator.set_muted(batch.topic_partition, True)
        return batches

    def expire(self, now_ms: int, connection_error: Callable[[TopicPartition], str]) -> int:
        """Fail the queued and sent batches older than the delivery timeout; return their number.

        `connection_error` returns why a partition's batches cannot be sent now; '' if that is unknown.
        """
        expired = self.accumulator.take_expired(now_ms)
        oldest_ms = now_ms - self._delivery_timeout_ms
        expired += [batch for batch in self._sent if batch.created_ms <= oldest_ms and not batch.is_done]
        for batch in expired:
            age_ms = now_ms - batch.created_ms
            reason = connection_error(batch.topic_partition) or batch.last_error
            text = (
                f"{count_text(batch.record_count, 'record')} for {batch.topic_partition} expired {age_ms} ms"
                f" after batch creation; delivery_timeout_ms is {self._delivery_timeout_ms}"
                f"{'; the last error: ' if reason else ''}{reason}"
            )
            batch.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
            self._release_expired(batch)
        _log_lost(expired, f"not written within delivery_timeout_ms={self._delivery_timeout_ms}")
        return len(expired)

    def on_result(self, batch: ProducerBatch, result: BatchResult, now_ms: int) -> bool:
        """Act on the broker's result; return whether it shows that the metadata is stale."""
        self._sent.pop(batch, None)
        if self._keep_order:
            self.accumulator.set_muted(batch.topic_partition, False)
        code = known_code(result.error_code)
        if batch.is_done:
            self._on_late_result(batch, code, result)
        elif code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._complete(batch, result)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            _log.warning("Batch of %d bytes for %s is too large; splitting it", *_size_and_partition(batch))
            self.accumulator.split(batch, now_ms)
        elif self._can_retry(batch, code, result.log_start_offset, now_ms):
            _log.info(
                "%s for %s; sending the batch again (attempt %d)",
                code.name,
                batch.topic_partition,
                batch.attempts,
            )
            batch.on_retriable_error(f"{result.error_message or code.text} [{code.name}]")
            self.accumulator.reenqueue(batch, now_ms)
        else:
            subject = f"{count_text(batch.record_count, 'record')} for {batch.topic_partition}"
            self._fail(batch, failure(result.error_code, subject, result.error_message))
        return code in STALE_METADATA

    def fail_all(self, error: KafkaError) -> None:
        """Fail all batches that are not done, because the producer can send no more."""
        self.accumulator.take_all()
        lost = [batch for batch in self.accumulator.incomplete if not batch.is_done]
        for batch in lost:
            text = f"{count_text(batch.record_count, 'record')} for {batch.topic_partition}: {error}"
            batch.fail(KafkaError(error.code, text))
            self._release_expired(batch)
        _log_lost(lost, str(error))

    def drop_unsent(self, error: KafkaError) -> bool:
        """Fail the batches that were never sent, because their transaction is rolled back.

        Return whether there were any.
        """
        dropped = self.accumulator.take_unsent()
        for batch in dropped:
            batch.fail(copy_of(error))
            self.accumulator.release(batch)
        _log_lost(dropped, str(error))
        return bool(dropped)

    def _complete(self, batch: ProducerBatch, result: BatchResult) -> None:
        offset = -1 if result.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else result.base_offset
        if self.identity is not None:
            self.identity.on_completed(batch, offset)
        batch.complete(offset, result.log_append_time_ms)
        self.accumulator.release(batch)

    def _on_late_result(self, batch: ProducerBatch, code: ErrorCode, result: BatchResult) -> None:
        """Use a success that came after the batch expired: its sequence is then acknowledged."""
        if self.identity is not None and batch.has_sequence and code is ErrorCode.NONE:
            self.identity.on_completed(batch, result.base_offset)

    def _can_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int, now_ms: int) -> bool:
        if batch.attempts >= self._retries or now_ms - batch.created_ms >= self._delivery_timeout_ms:
            return False
        if self.identity is not None:
            return self.identity.can_retry(batch, code, log_start_offset)
        return code.retriable

    def _fail(self, batch: ProducerBatch, error: KafkaError) -> None:
        if self.identity is not None:
            # When the retries are used up, an earlier attempt may have been written.
            surely_not_written = batch.attempts < self._retries
            self.identity.on_failed(batch, error.code, surely_not_written=surely_not_written)
        batch.fail(error)
        _log_lost([batch], str(error))
        self.accumulator.release(batch)

    def _release_expired(self, batch: ProducerBatch) -> None:
        if self.identity is not None:
            self.identity.on_expired(batch)
        self.accumulator.release(batch)


def produce_request(
    batches: Sequence[ProducerBatch],
    metadata: ClusterMetadata,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return the request that contains `batches`, one per partition."""
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        topic, partition = batch.topic_partition
        assert batch.payload is not None
        data = PartitionProduceData(index=partition, records=memoryview(batch.payload))
        by_topic.setdefault(topic, []).append(data)
    topics = tuple(
        TopicProduceData(name=topic, topic_id=metadata.topic_id(topic), partition_data=tuple(partitions))
        for topic, partitions in by_topic.items()
    )
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topics
    )


def _size_and_partition(batch: ProducerBatch) -> tuple[int, str]:
    return batch.size_bytes, str(batch.topic_partition)


def _log_lost(batches: Sequence[ProducerBatch], reason: str) -> None:
    """Log lost records in one line, because the application may not look at the deliveries."""
    if batches:
        records = sum(batch.record_count for batch in batches)
        partitions = ", ".join(sorted({str(batch.topic_partition) for batch in batches})[:5])
        count = f"{count_text(records, 'record')} in {count_text(len(batches), 'batch', 'batches')}"
        _log.warning("Lost %s (%s): %s", count, partitions, reason)
