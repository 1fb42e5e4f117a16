"""Where records wait, batch by batch and partition by partition, until they can be sent.

Pure. Each partition has a deque of batches: records are appended to the last, the first is sent next.
A batch is sendable when it is full, when another stands behind it, when it has lingered, when memory
is short, or while somebody flushes; not while its partition is muted (one request in flight) or backs
off after an error. A batch that is to be sent again returns to its place in sequence order.

Bounds: `buffer_memory` bytes are reserved by all batches together; `append` answers None when that
does not suffice, and the caller waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.producer.producer_batch import Delivery, ProducerBatch, new_builder
from tidelog.clients.producer.producer_identity import ProducerIdentity
from tidelog.clients.transport.backoff import ExponentialBackoff, RandomSource
from tidelog.protocol.batch import BATCH_OVERHEAD
from tidelog.protocol.compression import Compression
from tidelog.protocol.ids import NO_LEADER_EPOCH, BrokerId, TopicPartition
from tidelog.protocol.record import RecordHeader

NEVER_MS = 2**31 - 1
_RECORD_OVERHEAD_BYTES = 36
_HEADER_OVERHEAD_BYTES = 10


@dataclass(slots=True)
class PartitionQueue:
    """The batches of one partition, the next to be sent first."""

    topic_partition: TopicPartition
    batches: deque[ProducerBatch] = field(default_factory=deque)
    muted: bool = False


@dataclass(slots=True)
class Readiness:
    """Which nodes have something to be sent now, and what has to happen for the rest.

    `next_check_ms`: how long until a batch becomes sendable by time alone.
    """

    nodes: dict[BrokerId, list[PartitionQueue]] = field(default_factory=dict)
    next_check_ms: int = NEVER_MS
    unknown_leader_topics: set[str] = field(default_factory=set)


def record_size_bound(key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader] = ()) -> int:
    """An upper bound of the bytes one record takes in a batch, without compression."""
    size = _RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 3 * len(name) + (0 if content is None else len(content))
    return size


class RecordAccumulator:
    """The queues of all partitions.

    Units: `batch_size` and `buffer_memory` in bytes.
    Invariant: `memory_used` is the sum of `reserved_bytes` of the batches in `incomplete`.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: int,
        buffer_memory: int,
        retry_backoff: ExponentialBackoff,
        rng: RandomSource,
        delivery_timeout_ms: int,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        identity: ProducerIdentity | None = None,
    ) -> None:
        is_transactional = identity is not None and identity.is_transactional
        self._new_builder = partial(new_builder, compression, compression_level, is_transactional)
        self.batch_size = batch_size
        self.buffer_memory = buffer_memory
        self.memory_used = 0
        self.memory_waiters = 0
        self.incomplete: dict[ProducerBatch, None] = {}
        self._linger_ms = linger_ms
        self._retry_backoff = retry_backoff
        self._rng = rng
        self._delivery_timeout_ms = delivery_timeout_ms
        self._identity = identity
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._nonempty: dict[TopicPartition, PartitionQueue] = {}
        self._last_serial = 0
        self._flushes = 0
        self._closed = False

    # --- putting in -----------------------------------------------------------------------

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        """The queue of one partition, made when first asked for."""
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
        """Add one record to the batch that is open; False when there is none or no room in it.

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
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader],
        delivery: Delivery,
        size: int,
        now_ms: int,
    ) -> bool:
        """Begin a batch with one record; False when memory is short."""
        reserved_bytes = max(self.batch_size, BATCH_OVERHEAD + size)
        # A lone record that is larger than the whole memory was refused before it came here.
        if self.memory_used + reserved_bytes > self.buffer_memory and self.incomplete:
            return False
        batch = ProducerBatch(
            queue.topic_partition,
            self._new_builder(),
            created_ms=now_ms,
            reserved_bytes=reserved_bytes,
            serial=self._last_serial + 1,
        )
        # What cannot be encoded raises here, before the batch is anywhere.
        batch.append(timestamp, key, value, headers, delivery)
        self._last_serial += 1
        self._track(batch)
        queue.batches.append(batch)
        self._nonempty[queue.topic_partition] = queue
        return True

    # --- taking out -----------------------------------------------------------------------

    def ready(self, metadata: ClusterMetadata, now_ms: int) -> Readiness:
        """Which nodes have sendable batches, and when to look again."""
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
        """Whether the first batch of a queue that `ready` named, or the next one, may be sent now."""
        if not queue.batches or queue.muted:
            return False
        return self._wait_ms(queue, metadata.leader_epoch(queue.topic_partition), now_ms) <= 0

    def _wait_ms(self, queue: PartitionQueue, leader_epoch: int, now_ms: int) -> int:
        """How long until the first batch is sendable; 0 or less is now."""
        batch = queue.batches[0]
        if batch.attempts:
            # A new leader is asked at once: the backoff was meant for the old one.
            if NO_LEADER_EPOCH < batch.leader_epoch < leader_epoch:
                return 0
            return batch.retry_at_ms - now_ms
        if len(queue.batches) > 1 or batch.size_bytes >= self.batch_size:
            return 0
        if self._flushes > 0 or self._closed or self.memory_waiters > 0:
            return 0
        return batch.created_ms + self._linger_ms - now_ms

    def drain(
        self, queues: Iterable[PartitionQueue], metadata: ClusterMetadata, max_size: int
    ) -> list[ProducerBatch]:
        """Take at most one batch per partition, together at most `max_size` bytes (but at least one).

        `queues` are those that `ready` named for one node. A partition that was served goes to the
        end of the line.
        """
        drained: list[ProducerBatch] = []
        size = 0
        for queue in queues:
            batch = queue.batches[0]
            if size + batch.size_bytes > max_size and drained:
                break
            if self._identity is not None:
                if not self._identity.may_send(batch):
                    continue
                if not batch.has_sequence:
                    self._identity.assign(batch)
            queue.batches.popleft()
            del self._nonempty[queue.topic_partition]
            if queue.batches:
                self._nonempty[queue.topic_partition] = queue
            batch.leader_epoch = metadata.leader_epoch(queue.topic_partition)
            size += len(batch.close())
            drained.append(batch)
        return drained

    def reenqueue(self, batch: ProducerBatch, now_ms: int) -> None:
        """Put a batch back that is to be sent again, after backoff."""
        batch.retry_at_ms = now_ms + self._retry_backoff.delay_ms(batch.attempts, self._rng)
        batch.attempts += 1
        self._insert(batch)

    def split(self, batch: ProducerBatch, now_ms: int) -> list[ProducerBatch]:
        """Replace a batch that the broker found too large by smaller ones, which are to be sent next.

        Each part has at most `batch_size` bytes, and at most half of what was refused.
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
        batch.done = True
        for part in parts:
            part.reserved_bytes = part.builder.estimated_size_bytes
            part.close()
            self._track(part)
        if self._identity is not None:
            self._identity.split(batch, parts)
        for part in reversed(parts):
            part.retry_at_ms = now_ms
            self._insert(part)
        return parts

    def _part_of(self, batch: ProducerBatch) -> ProducerBatch:
        part = ProducerBatch(
            batch.topic_partition,
            self._new_builder(),
            created_ms=batch.created_ms,
            reserved_bytes=0,
            serial=batch.serial,
        )
        part.attempts = batch.attempts + 1
        return part

    def _insert(self, batch: ProducerBatch) -> None:
        """Put the batch before the first that comes after it: by sequence, else at the front."""
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
        """Take out the queued batches that are older than `delivery_timeout_ms`."""
        expired: list[ProducerBatch] = []
        oldest_ms = now_ms - self._delivery_timeout_ms
        for queue in self._nonempty.values():
            batches = queue.batches
            while batches and batches[0].created_ms <= oldest_ms:
                expired.append(batches.popleft())
        return expired

    def next_expiry_ms(self, now_ms: int) -> int:
        """How long until the first of the incomplete batches expires."""
        # Batches are tracked in the order of creation, except for parts of split ones.
        oldest = next(iter(self.incomplete), None)
        if oldest is None:
            return NEVER_MS
        return max(0, oldest.created_ms + self._delivery_timeout_ms - now_ms)

    def take_all(self) -> list[ProducerBatch]:
        """Take out everything that is queued, because the producer gives up."""
        taken = [batch for queue in self._nonempty.values() for batch in queue.batches]
        for queue in self._nonempty.values():
            queue.batches.clear()
        self._nonempty.clear()
        return taken

    def take_unsent(self) -> list[ProducerBatch]:
        """Take out what was never sent, because its transaction is rolled back."""
        taken = []
        for queue in self._nonempty.values():
            taken += [batch for batch in queue.batches if not batch.has_sequence]
            queue.batches = deque(batch for batch in queue.batches if batch.has_sequence)
        return taken

    def release(self, batch: ProducerBatch) -> None:
        """Give back the memory of a batch that is done; once per batch."""
        if batch in self.incomplete:
            del self.incomplete[batch]
            self.memory_used -= batch.reserved_bytes

    def _track(self, batch: ProducerBatch) -> None:
        self.incomplete[batch] = None
        self.memory_used += batch.reserved_bytes

    # --- flushing and muting --------------------------------------------------------------

    def begin_flush(self) -> int:
        """Make everything sendable; the serial up to which batches have to be done."""
        self._flushes += 1
        return self._last_serial

    def end_flush(self) -> None:
        """Take back one `begin_flush`."""
        self._flushes -= 1

    def is_flushed(self, serial: int) -> bool:
        """Whether every batch up to `serial` is done."""
        return not any(batch.serial <= serial for batch in self.incomplete)

    def close(self) -> None:
        """Nothing more will come: do not linger."""
        self._closed = True

    def queue_lengths(self, topic: str, partitions: Sequence[int]) -> list[int]:
        """How many batches wait for each of the partitions."""
        queues = self._queues
        lengths = []
        for partition in partitions:
            queue = queues.get(TopicPartition(topic, partition))
            lengths.append(0 if queue is None else len(queue.batches))
        return lengths
