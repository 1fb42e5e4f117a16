"""Holds records in batches by partition until they can be sent.

Pure. Each partition has a deque of batches: records are appended to the last batch, and the first batch is
sent next. A batch can be sent when it is full, when another batch follows it, when `linger_ms` has passed,
when memory is exhausted, or during a flush. It cannot be sent while its partition is muted (one request in
flight) or in backoff after an error. A batch to be sent again returns to its place in sequence order.

Bounds: all batches together reserve at most `buffer_memory` bytes. If that does not suffice, `append_to_new`
returns False, and the caller waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from typing import TypeAlias

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.producer.producer_batch import Delivery, ProducerBatch, new_builder
from tidelog.clients.producer.producer_identity import ProducerIdentity
from tidelog.protocol.batch import BATCH_OVERHEAD
from tidelog.protocol.compression import Compression
from tidelog.protocol.ids import NO_LEADER_EPOCH, BrokerId, TopicPartition
from tidelog.protocol.record import RecordHeader

NEVER_MS = 2**31 - 1
UnsentRecord: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[RecordHeader], Delivery]
"""Timestamp, key, value, headers and delivery of one record."""

_RECORD_OVERHEAD_BYTES = 36
_HEADER_OVERHEAD_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingSettings:
    """The producer options about batches; `batch_size` and `buffer_memory` are in bytes."""

    batch_size: int
    linger_ms: int
    buffer_memory: int
    delivery_timeout_ms: int
    compression: Compression = Compression.NONE
    compression_level: int | None = None


@dataclass(slots=True)
class PartitionQueue:
    """The batches of one partition; the first is sent next."""

    topic_partition: TopicPartition
    batches: deque[ProducerBatch] = field(default_factory=deque)
    muted: bool = False


@dataclass(slots=True)
class Readiness:
    """The nodes that have batches to send now, and the conditions of the other batches.

    `next_check_ms`: the time until another batch can be sent without a further event.
    """

    nodes: dict[BrokerId, list[PartitionQueue]] = field(default_factory=dict)
    next_check_ms: int = NEVER_MS
    unknown_leader_topics: set[str] = field(default_factory=set)


def record_size_bound(key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader] = ()) -> int:
    """Return an upper bound of a record's size in a batch, in bytes without compression."""
    size = _RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 3 * len(name) + (0 if content is None else len(content))
    return size


class RecordAccumulator:
    """The batch queues of all partitions.

    Invariant: `memory_used` is the sum of `reserved_bytes` of the batches in `incomplete`.
    """

    def __init__(
        self,
        settings: BatchingSettings,
        *,
        retry_backoff: ExponentialBackoff,
        rng: Randomness,
        identity: ProducerIdentity | None = None,
    ) -> None:
        is_transactional = identity is not None and identity.is_transactional
        self._new_builder = partial(
            new_builder, settings.compression, settings.compression_level, is_transactional
        )
        self.batch_size = settings.batch_size
        self.buffer_memory = settings.buffer_memory
        self.memory_used = 0
        self._memory_waiters = 0
        self.incomplete: dict[ProducerBatch, None] = {}
        self._linger_ms = settings.linger_ms
        self._retry_backoff = retry_backoff
        self._rng = rng
        self._delivery_timeout_ms = settings.delivery_timeout_ms
        self._identity = identity
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._nonempty: dict[TopicPartition, PartitionQueue] = {}
        self._last_serial = 0
        self._flushes = 0
        self._closed = False

    # --- appending ------------------------------------------------------------------------

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        """Return the queue of one partition; create it at the first call."""
        found = self._queues.get(topic_partition)
        if found is None:
            found = self._queues[topic_partition] = PartitionQueue(topic_partition)
        return found

    def append(
        self,
        queue: PartitionQueue,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader],
        delivery: Delivery,
        size: int,
    ) -> bool:
        """Append one record to the open batch; return False if there is none, or if it has no room.

        `size` is the record's `record_size_bound`.
        """
        if not queue.batches:
            return False
        batch = queue.batches[-1]
        if batch.payload is not None:
            return False
        if batch.builder.estimated_size_bytes + size > self.batch_size:
            return False
        batch.append(timestamp, key, value, headers, delivery)
        return True

    def append_to_new(
        self,
        queue: PartitionQueue,
        record: UnsentRecord,
        size: int,
        now_ms: int,
    ) -> bool:
        """Create a batch that begins with `record`; return False if memory does not suffice."""
        reserved_bytes = max(self.batch_size, BATCH_OVERHEAD + size)
        # The producer has already rejected a single record that is larger than the whole memory.
        if self.memory_used + reserved_bytes > self.buffer_memory and self.incomplete:
            return False
        batch = ProducerBatch(
            queue.topic_partition,
            self._new_builder(),
            created_ms=now_ms,
            reserved_bytes=reserved_bytes,
            serial=self._last_serial + 1,
        )
        # A record that cannot be encoded raises here, before the batch is tracked or queued.
        batch.append(*record)
        self._last_serial += 1
        self._track(batch)
        queue.batches.append(batch)
        self._nonempty[queue.topic_partition] = queue
        return True

    # --- draining -------------------------------------------------------------------------

    def ready(self, metadata: ClusterMetadata, now_ms: int) -> Readiness:
        """Return the nodes that have batches to send, and when to check again."""
        result = Readiness()
        for topic_partition, queue in list(self._nonempty.items()):
            if not queue.batches:
                del self._nonempty[topic_partition]
                continue
            if queue.muted:
                continue
            leader = metadata.leader(topic_partition)
            if leader is None:
                result.unknown_leader_topics.add(topic_partition.topic)
                continue
            wait_ms = self._wait_ms(queue, metadata.leader_epoch(topic_partition), now_ms)
            if wait_ms <= 0:
                result.nodes.setdefault(leader, []).append(queue)
            else:
                result.next_check_ms = min(result.next_check_ms, wait_ms)
        return result

    def is_sendable(self, queue: PartitionQueue, metadata: ClusterMetadata, now_ms: int) -> bool:
        """Return whether the first batch of a queue that `ready` returned may be sent now."""
        if not queue.batches or queue.muted:
            return False
        return self._wait_ms(queue, metadata.leader_epoch(queue.topic_partition), now_ms) <= 0

    def _wait_ms(self, queue: PartitionQueue, leader_epoch: int, now_ms: int) -> int:
        """Return the time until the first batch can be sent; 0 or less means now."""
        batch = queue.batches[0]
        if batch.attempts:
            # Send to a new leader without delay: the backoff was for the old one.
            if NO_LEADER_EPOCH < batch.leader_epoch < leader_epoch:
                return 0
            return batch.retry_at_ms - now_ms
        if len(queue.batches) > 1 or batch.size_bytes >= self.batch_size:
            return 0
        if self._flushes > 0 or self._closed or self._memory_waiters > 0:
            return 0
        return batch.created_ms + self._linger_ms - now_ms

    def drain(
        self, queues: Iterable[PartitionQueue], metadata: ClusterMetadata, max_size: int
    ) -> list[ProducerBatch]:
        """Remove and return at most one batch per partition, and at most `max_size` bytes (but one batch).

        `queues` are those that `ready` returned for one node. Drained partitions move to the end of the
        order.
        """
        drained: list[ProducerBatch] = []
        size = 0
        for queue in queues:
            batch = queue.batches[0]
            if size + batch.size_bytes > max_size and drained:
                break
            if self._identity is not None:
                if not self._identity.can_send(batch):
                    continue
                if not batch.has_sequence:
                    self._identity.assign(batch)
            queue.batches.popleft()
            del self._nonempty[queue.topic_partition]
            if queue.batches:
                self._nonempty[queue.topic_partition] = queue
            size += len(batch.drain(metadata.leader_epoch(queue.topic_partition)))
            drained.append(batch)
        return drained

    def reenqueue(self, batch: ProducerBatch, now_ms: int) -> None:
        """Queue a batch again, to be sent after backoff."""
        batch.retry(now_ms + self._retry_backoff.delay_ms(batch.attempts, self._rng))
        self._insert(batch)

    def split(self, batch: ProducerBatch, now_ms: int) -> list[ProducerBatch]:
        """Replace a batch that was too large for the broker by smaller ones, which are sent next.

        Each part has at most `batch_size` bytes, and at most half the bytes of `batch`.
        """
        target = max(1, min(self.batch_size, batch.size_bytes // 2))
        parts: list[ProducerBatch] = []
        part: ProducerBatch | None = None
        for record, delivery in zip(batch.records(), batch.deliveries, strict=True):
            size = record_size_bound(record.key, record.value, record.headers)
            if part is None or part.builder.estimated_size_bytes + size > target:
                part = self._part_of(batch)
                parts.append(part)
            part.append(record.timestamp, record.key, record.value, record.headers, delivery)
        self.release(batch)
        batch.mark_split()
        for part in parts:
            part.close_part(now_ms)
            self._track(part)
        if self._identity is not None:
            self._identity.split(batch, parts)
        for part in reversed(parts):
            self._insert(part)
        return parts

    def _part_of(self, batch: ProducerBatch) -> ProducerBatch:
        return ProducerBatch(
            batch.topic_partition,
            self._new_builder(),
            created_ms=batch.created_ms,
            reserved_bytes=0,
            serial=batch.serial,
            attempts=batch.attempts + 1,
        )

    def _insert(self, batch: ProducerBatch) -> None:
        """Insert the batch by its sequence; at the front if it has none."""
        queue = self.queue(batch.topic_partition)
        batches = queue.batches
        index = 0
        if batch.has_sequence:
            while (
                index < len(batches)
                and batches[index].has_sequence
                and batches[index].base_sequence < batch.base_sequence
            ):
                index += 1
        batches.insert(index, batch)
        self._nonempty[batch.topic_partition] = queue

    # --- the end of a batch ---------------------------------------------------------------

    def take_expired(self, now_ms: int) -> list[ProducerBatch]:
        """Remove and return the queued batches that are older than `delivery_timeout_ms`."""
        expired: list[ProducerBatch] = []
        oldest_ms = now_ms - self._delivery_timeout_ms
        for queue in self._nonempty.values():
            batches = queue.batches
            while batches and batches[0].created_ms <= oldest_ms:
                expired.append(batches.popleft())
        return expired

    def next_expiry_ms(self, now_ms: int) -> int:
        """Return the time until the first incomplete batch expires."""
        # Batches are tracked in the order of creation, except for the parts of split batches.
        oldest = next(iter(self.incomplete), None)
        if oldest is None:
            return NEVER_MS
        return max(0, oldest.created_ms + self._delivery_timeout_ms - now_ms)

    def take_all(self) -> list[ProducerBatch]:
        """Remove and return all queued batches, because the producer can send no more."""
        taken = [batch for queue in self._nonempty.values() for batch in queue.batches]
        for queue in self._nonempty.values():
            queue.batches.clear()
        self._nonempty.clear()
        return taken

    def take_unsent(self) -> list[ProducerBatch]:
        """Remove and return the batches that were never sent, because their transaction is rolled back."""
        taken = []
        for queue in self._nonempty.values():
            taken += [batch for batch in queue.batches if not batch.has_sequence]
            queue.batches = deque(batch for batch in queue.batches if batch.has_sequence)
        return taken

    def release(self, batch: ProducerBatch) -> None:
        """Release the memory of a batch that is done; a second call has no effect."""
        if batch in self.incomplete:
            del self.incomplete[batch]
            self.memory_used -= batch.reserved_bytes

    def _track(self, batch: ProducerBatch) -> None:
        self.incomplete[batch] = None
        self.memory_used += batch.reserved_bytes

    # --- flushing and muting --------------------------------------------------------------

    def begin_flush(self) -> int:
        """Let all batches be sent; return the serial up to which batches have to be done."""
        self._flushes += 1
        return self._last_serial

    def end_flush(self) -> None:
        """End one `begin_flush`."""
        self._flushes -= 1

    def is_flushed(self, serial: int) -> bool:
        """Return whether every batch up to `serial` is done."""
        return not any(batch.serial <= serial for batch in self.incomplete)

    def set_muted(self, topic_partition: TopicPartition, is_muted: bool) -> None:
        """Stop or resume sending the batches of a partition."""
        self.queue(topic_partition).muted = is_muted

    @contextmanager
    def memory_wait(self) -> Iterator[None]:
        """Send batches without lingering while a call waits for memory."""
        self._memory_waiters += 1
        try:
            yield
        finally:
            self._memory_waiters -= 1

    def close(self) -> None:
        """Send the remaining batches without lingering: no more records are appended."""
        self._closed = True

    def queue_lengths(self, topic: str, partitions: Sequence[int]) -> list[int]:
        """Return the number of queued batches of each partition."""
        queues = self._queues
        lengths = []
        for partition in partitions:
            queue = queues.get(TopicPartition(topic, partition))
            lengths.append(0 if queue is None else len(queue.batches))
        return lengths
