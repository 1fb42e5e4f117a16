"""A fetch request of a client that waits for partitions to be read from remote storage.

The response is sent when every remote read has ended, successfully or not, at the latest after
remote.fetch.max.wait.ms. A partition whose read has not ended by then has no records in the response; the
next fetch reads it again. Local partitions were read when the request was received. As in Kafka, they are not
read again.

Source: KIP-405, KIP-1018, KAFKA-14915; DelayedRemoteFetch of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import replace

from tidelog.base.dataclass import dataclass
from tidelog.broker.fetching.delayed_fetch import WaitingFetch
from tidelog.broker.fetching.fetch_read import (
    FetchRead,
    RemotePartition,
    read_partitions,
    readable_partition,
    result_with_offsets,
)
from tidelog.broker.fetching.remote_fetch import RemoteReader
from tidelog.broker.partitions.partition import FetchIsolation
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_LEADER_EPOCH, Offset
from tidelog.protocol.views.fetch_response_view import FetchPartitionResult
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.reading.requests import RemoteRead, RemoteReadRequest
from tidelog.storage.segment.file_slice import FileSlice

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _PendingRead:
    """A remote read that has started, with the partition whose result it completes."""

    remote: RemotePartition
    outcome: asyncio.Future[RemoteRead]


class DelayedRemoteFetch(DelayedOperation):
    """Completes when every remote read has ended, when a partition leaves this node, or after the delay.

    Bounds: each read takes at most the bytes that `read` has reserved for it, which together are within the
    request's limit, and at most its share of the reader's memory. The reader bounds the number of reads.
    """

    def __init__(
        self,
        delay_ms: int,
        fetch: WaitingFetch,
        read: FetchRead,
        reader: RemoteReader,
        on_read: Callable[[FetchRead], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(read.results))
        self._replicas = fetch.replicas
        self._requested = fetch.requested
        self._limits = fetch.limits
        self._read = read
        self._on_read: Callable[[FetchRead], None] | None = on_read
        self._on_failed: Callable[[Exception], None] | None = on_failed
        assert fetch.limits.replica_id < 0, "followers do not read from remote storage through the leader"
        self._memory = reader.memory
        self._taken_bytes = 0
        self._pending_reads = [self._start(reader, remote) for remote in read.remote or ()]
        for _, result in read.results:
            if isinstance(result.records, FileSlice):
                result.records.release()

    def _start(self, reader: RemoteReader, remote: RemotePartition) -> _PendingRead:
        """Start to read a partition from remote storage, within the memory that the reader has free."""
        partition, limits = remote.partition, self._limits
        name = partition.topic_partition
        max_bytes = self._memory.take(remote.max_bytes)
        self._taken_bytes += max_bytes
        request = RemoteReadRequest(
            topic_id_partition=TopicIdPartition(partition.topic_id, name.topic, name.partition),
            offset=remote.requested.fetch_offset,
            max_bytes=max_bytes,
            at_least_one=remote.at_least_one,
            upper_bound=partition.upper_bound(limits.isolation),
            with_aborted=limits.isolation is FetchIsolation.READ_COMMITTED,
            log=partition.log,
        )
        outcome = asyncio.ensure_future(reader.read(request))
        outcome.add_done_callback(self._on_read_ended)
        return _PendingRead(remote, outcome)

    def _on_read_ended(self, outcome: asyncio.Future[RemoteRead]) -> None:
        if not outcome.cancelled():
            # Retrieved here, because after the response no other code may retrieve it.
            outcome.exception()
        if self.is_completed:
            return
        try:
            self.try_complete()
        except Exception as error:
            self.fail(error)

    def try_complete(self) -> bool:
        """Complete if every remote read has ended."""
        return all(pending.outcome.done() for pending in self._pending_reads) and self.force_complete()

    def try_complete_at(self, key: Hashable) -> bool:
        """Complete if the partition at `key` has left this node, or if every remote read has ended."""
        requested = self._requested.get(key)
        if requested is not None and not self._replicas.has(
            requested.topic, requested.topic_id, requested.partition
        ):
            return self.force_complete()
        return self.try_complete()

    def on_complete(self) -> None:
        """Respond with the local records, and with the remote records that have been read."""
        read = self._read
        for pending in self._pending_reads:
            remote = pending.remote
            result = self._result_of(pending)
            read.results[remote.index] = (remote.requested, result)
            read.size_bytes += result.records_length
            read.is_final = read.is_final or bool(result.error_code)
        self._stop_reading()
        assert self._on_read is not None
        self._on_read(read)

    def _result_of(self, pending: _PendingRead) -> FetchPartitionResult:
        """Return the result of a remote partition; it has no records if its read has not ended."""
        remote, outcome = pending.remote, pending.outcome
        try:
            partition = readable_partition(self._replicas, remote.requested, self._limits)
            if partition is not remote.partition:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.topic_partition} was re-created"
                )
            result = result_with_offsets(partition)
        except KafkaError as error:
            return FetchPartitionResult(error_code=error.code)
        if not outcome.done() or outcome.cancelled():
            return result
        failure = outcome.exception()
        if isinstance(failure, KafkaError):
            return FetchPartitionResult(error_code=failure.code)
        if failure is not None:
            logger.error(
                "Cannot read %s at offset %d from remote storage: %r",
                remote.partition.topic_partition,
                remote.requested.fetch_offset,
                failure,
            )
            return FetchPartitionResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        remote_read = outcome.result()
        if not len(remote_read.records) and remote_read.next_offset > remote.requested.fetch_offset:
            return self._read_after_gap(remote, remote_read.next_offset, result)
        result.records = remote_read.records
        result.aborted_transactions = remote_read.aborted_transactions
        return result

    def _read_after_gap(
        self, remote: RemotePartition, offset: Offset, empty_result: FetchPartitionResult
    ) -> FetchPartitionResult:
        """Read the local log from `offset` if remote storage has no records before it.

        The log of a topic that was compacted once can have such gaps. Without this a reader would
        repeat the same fetch forever (KAFKA-15388).
        """
        if offset < remote.partition.log.local_log_start_offset:
            return empty_result
        requested = replace(remote.requested, fetch_offset=offset, last_fetched_epoch=NO_LEADER_EPOCH)
        limits = replace(self._limits, max_bytes=remote.max_bytes, preferred_replica=None)
        read = FetchRead([], reserved_bytes=0 if remote.at_least_one else 1)
        return read_partitions(self._replicas, [requested], limits, read=read).results[0][1]

    def on_failure(self, error: Exception) -> None:
        """Respond with errors."""
        assert self._on_failed is not None
        self._on_failed(error)

    def release(self) -> None:
        """Stop the reads that have not ended; drop the data of the others, and the callbacks."""
        self._stop_reading()
        self._memory.give_back(self._taken_bytes)
        self._taken_bytes = 0
        self._read = FetchRead([])
        self._requested = {}
        self._on_read = self._on_failed = None

    def _stop_reading(self) -> None:
        for pending in self._pending_reads:
            pending.outcome.cancel()
        self._pending_reads = []
