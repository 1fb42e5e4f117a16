"""A fetch request of a client some of whose partitions are being read from remote storage.

It is answered once every remote read has ended, well or not, at the latest after
remote.fetch.max.wait.ms: what is not there by then is empty, and read again by the next fetch. Local
partitions of the same request are read at that moment, with the room that the remote ones left.

Source: KIP-405, KIP-1018, KAFKA-14915; DelayedRemoteFetch of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from tidelog.broker.fetching.fetch_read import (
    FetchLimits,
    FetchRead,
    MovedPartition,
    offsets_of,
    read_partitions,
    readable_partition,
)
from tidelog.broker.fetching.remote_fetch import RemoteReader
from tidelog.broker.partitions.partition import FetchIsolation
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.fetch_request_view import FetchPartition
from tidelog.protocol.fetch_response_view import FetchPartitionResult
from tidelog.protocol.ids import NO_LEADER_EPOCH, Offset
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.reading.requests import RemoteRead, RemoteReadRequest

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Reading:
    moved: MovedPartition
    outcome: asyncio.Future[RemoteRead]


class DelayedRemoteFetch(DelayedOperation):
    """Complete when every remote read is done, when a partition is here no more, or at the deadline.

    Bounds: each read takes at most what `read` has set aside for it, which together is within the
    request's limit, and within the reader's memory; the reader bounds how many there are at a time.
    """

    def __init__(
        self,
        delay_ms: int,
        replicas: ReplicaManager,
        read: FetchRead,
        limits: FetchLimits,
        reader: RemoteReader,
        on_read: Callable[[FetchRead], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(read.results))
        self._replicas = replicas
        self._read = read
        self._limits = limits
        self._on_read: Callable[[FetchRead], None] | None = on_read
        self._on_failed: Callable[[Exception], None] | None = on_failed
        assert read.moved is not None
        assert limits.replica_id < 0, "followers are told where the records are, they do not get them"
        self._memory = reader.memory
        self._taken_bytes = 0
        self._readings = [self._start(reader, moved) for moved in read.moved]

    def _start(self, reader: RemoteReader, moved: MovedPartition) -> _Reading:
        partition, limits = moved.partition, self._limits
        name = partition.topic_partition
        max_bytes = self._memory.take(moved.max_bytes)
        self._taken_bytes += max_bytes
        request = RemoteReadRequest(
            topic_id_partition=TopicIdPartition(partition.topic_id, name.topic, name.partition),
            offset=moved.asked.fetch_offset,
            max_bytes=max_bytes,
            at_least_one=moved.at_least_one,
            upper_bound=partition.upper_bound(limits.isolation),
            with_aborted=limits.isolation is FetchIsolation.READ_COMMITTED,
            log=partition.log,
        )
        outcome = asyncio.ensure_future(reader.read(request))
        outcome.add_done_callback(self._on_read_done)
        return _Reading(moved, outcome)

    def _on_read_done(self, outcome: asyncio.Future[RemoteRead]) -> None:
        if not outcome.cancelled():
            outcome.exception()  # seen: nobody may ask for it, when the answer has been given already
        if self.completed:
            return
        try:
            self.try_complete()
        except Exception as error:
            self.failed(error)

    def try_complete(self) -> bool:
        """Answer if there is nothing to wait for any more."""
        for asked, result in self._read.results:
            if not result.error_code and not self._is_here(asked):
                return self.force_complete()
        return all(reading.outcome.done() for reading in self._readings) and self.force_complete()

    def _is_here(self, asked: FetchPartition) -> bool:
        try:
            self._replicas.find(asked.topic, asked.topic_id, asked.partition)
        except KafkaError:
            return False
        return True

    def on_complete(self) -> None:
        """Answer with what there is."""
        remote = {reading.moved.index: self._result_of(reading) for reading in self._readings}
        self._stop_reading()
        limits = self._limits
        results: list[tuple[FetchPartition, FetchPartitionResult]] = []
        size_bytes = sum(result.records_length for result in remote.values())
        is_final = False
        for index, (asked, _) in enumerate(self._read.results):
            result = remote.get(index)
            if result is None:
                again = read_partitions(self._replicas, [asked], limits, taken_bytes=size_bytes)
                result = again.results[0][1]
                size_bytes += again.size_bytes
                is_final = is_final or again.is_final
            is_final = is_final or bool(result.error_code)
            results.append((asked, result))
        assert self._on_read is not None
        self._on_read(FetchRead(results, size_bytes, is_final))

    def _result_of(self, reading: _Reading) -> FetchPartitionResult:
        """One remote partition's part of the answer, empty while it is not there."""
        moved, outcome = reading.moved, reading.outcome
        try:
            partition = readable_partition(self._replicas, moved.asked, self._limits)
            if partition is not moved.partition:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.topic_partition} was made anew"
                )
            result = offsets_of(partition)
        except KafkaError as error:
            return FetchPartitionResult(error_code=error.code)
        if not outcome.done() or outcome.cancelled():
            return result
        failure = outcome.exception()
        if isinstance(failure, KafkaError):
            return FetchPartitionResult(error_code=failure.code)
        if failure is not None:
            logger.error(
                "reading %s at %d from remote storage failed: %r",
                moved.partition.topic_partition,
                moved.asked.fetch_offset,
                failure,
            )
            return FetchPartitionResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        read = outcome.result()
        if not len(read.records) and read.next_offset > moved.asked.fetch_offset:
            return self._read_behind_gap(moved, read.next_offset, result)
        result.records = read.records
        result.aborted_transactions = read.aborted_transactions
        return result

    def _read_behind_gap(
        self, moved: MovedPartition, offset: Offset, nothing: FetchPartitionResult
    ) -> FetchPartitionResult:
        """Remote storage has nothing up to `offset`, as in a log that was compacted once: go on locally.

        Else a reader would ask for the same again and again (KAFKA-15388).
        """
        if offset < moved.partition.log.local_log_start_offset:
            return nothing
        asked = replace(moved.asked, fetch_offset=offset, last_fetched_epoch=NO_LEADER_EPOCH)
        limits = replace(self._limits, max_bytes=moved.max_bytes, preferred_replica=None)
        taken_bytes = 0 if moved.at_least_one else 1
        return read_partitions(self._replicas, [asked], limits, taken_bytes=taken_bytes).results[0][1]

    def on_failure(self, error: Exception) -> None:
        """Answer that it cannot be read."""
        assert self._on_failed is not None
        self._on_failed(error)

    def release(self) -> None:
        """Stop the reads that have not ended; drop the data of the others, and the callbacks."""
        self._stop_reading()
        self._memory.give_back(self._taken_bytes)
        self._taken_bytes = 0
        self._read = FetchRead([], 0, True)
        self._on_read = self._on_failed = None

    def _stop_reading(self) -> None:
        for reading in self._readings:
            reading.outcome.cancel()
        self._readings = []
