"""The reader of remote segments: metadata queries on the event loop, blocking calls in a pool.

    read                  segment by leader epoch and offset -> offset index, unless the read continues
                          another one -> one ranged stream
                          -> batches -> aborted transactions of this and later segments, then the local log's
    offset_for_timestamp  segments of the log's lineage, by their largest timestamp -> time index -> records
    fetch_auxiliary       the state that a follower needs to continue after a segment

Bounds: those of the pool, `remote.log.reader.threads` and `remote.log.reader.max.pending.tasks`.
Errors: PoolFull; KafkaError, see `tidelog.remote.reading.errors`.
Source: RemoteLogManager.read, RemoteLogReader, RemoteLogOffsetReader of Apache Kafka 4.3; KIP-405, KIP-1075.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Final, NamedTuple

from tidelog.base.bounded_pool import BoundedPool
from tidelog.base.clock import SYSTEM_CLOCK, Clock
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.ports.metadata_manager import RemoteLogMetadataManager
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import RemoteStorageManager
from tidelog.remote.reading import aborted
from tidelog.remote.reading.auxiliary import AuxiliaryState, fetch_auxiliary
from tidelog.remote.reading.errors import ReadErrors
from tidelog.remote.reading.lineage import (
    SegmentPart,
    part_at,
    parts_with_aborted_transactions,
    parts_with_timestamp,
)
from tidelog.remote.reading.read_ahead import Prefetching, ReadAhead
from tidelog.remote.reading.requests import RemoteRead, RemoteReadRequest, TimestampSearch
from tidelog.remote.reading.segment_read import SegmentRead, SegmentReader
from tidelog.remote.reading.timestamp_search import TimestampReader
from tidelog.storage.log.lookup import RecordPlace
from tidelog.storage.segment.txn_index import AbortedTransaction, AbortedTransactions

SEGMENTS_AT_ONCE: Final = 64
"""The number of transaction indexes that one call in the pool reads."""


class _ThreadResult(NamedTuple):
    """The batches that a thread read, and the aborted transactions of the first segments."""

    read: SegmentRead
    aborted: AbortedTransactions
    searched_parts: list[SegmentPart]


class RemoteLogReader:
    """Reads remote segments for consumers and followers. Used from one event loop."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        metadata: RemoteLogMetadataManager,
        index_cache: RemoteIndexCache,
        pool: BoundedPool,
        *,
        auxiliary_pool: BoundedPool | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._storage = storage
        self._metadata = metadata
        self._index_cache = index_cache
        self._pool = pool
        self._auxiliary_pool = auxiliary_pool or pool
        self._segments = SegmentReader(storage, index_cache)
        self._timestamps = TimestampReader(storage, index_cache, clock)
        prefetching = storage if isinstance(storage, Prefetching) else None
        self._read_ahead = ReadAhead(prefetching, metadata, index_cache)
        self._errors = ReadErrors(clock)

    # -- batches by offset

    async def read(self, request: RemoteReadRequest) -> RemoteRead:
        """Return complete batches of one remote segment, from the one that contains the requested offset.

        If no batch contains it, the first batch follows it. If there are no records and `next_offset` is
        larger, remote storage has no records before it.
        """
        with self._errors.converted(request.topic_id_partition, f"reading from offset {request.offset}"):
            part = self._part_at(request, request.offset)
            if part is None:
                epoch = request.log.leader_epochs.epoch_for_offset(request.offset)
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{request.topic_id_partition}: offset {request.offset} of leader epoch {epoch} is not "
                    "in remote storage",
                )
            while part is not None:
                begun = self._read_ahead.begin(request, part)
                position = None if begun is None else begun.position
                result = await self._read_part(request, part, position)
                if result is not None:
                    if result.read.records:
                        _, next_offset, end_position = result.read
                        self._read_ahead.record(request, part, begun, next_offset, end_position)
                    return await self._with_aborted_transactions(request, result)
                offset = part.end_offset
                part = self._part_at(request, offset)
            return RemoteRead(b"", offset, [] if request.with_aborted else None)

    def _part_at(self, request: RemoteReadRequest, offset: Offset) -> SegmentPart | None:
        epochs = request.log.leader_epochs
        part = part_at(self._metadata, request.topic_id_partition, epochs, offset)
        if part is None or part.end_offset <= request.upper_bound:
            return part
        return part._replace(end_offset=request.upper_bound)

    async def _read_part(
        self, request: RemoteReadRequest, part: SegmentPart, position: int | None
    ) -> _ThreadResult | None:
        candidates = self._segments_with_aborted(request, part.start_offset) if request.with_aborted else []
        return await self._pool.run(self._read_in_thread, request, part, position, candidates)

    def _read_in_thread(
        self,
        request: RemoteReadRequest,
        part: SegmentPart,
        position: int | None,
        candidates: list[SegmentPart],
    ) -> _ThreadResult | None:
        read = self._segments.read(part, request.max_bytes, request.at_least_one, position)
        if read is None:
            return None
        if not read.records:
            return _ThreadResult(read, AbortedTransactions([], True), [])
        transactions = aborted.collect(self._index_cache, candidates, request.offset, read.next_offset)
        return _ThreadResult(read, transactions, candidates)

    async def _with_aborted_transactions(
        self, request: RemoteReadRequest, result: _ThreadResult
    ) -> RemoteRead:
        read = result.read
        if not request.with_aborted:
            return RemoteRead(read.records, read.next_offset)
        return RemoteRead(read.records, read.next_offset, await self._all_aborted(request, result))

    # -- aborted transactions

    def _segments_with_aborted(self, request: RemoteReadRequest, offset: Offset) -> list[SegmentPart]:
        """Return the next remote segments to search; segments on the local disk are searched there."""
        log = request.log
        parts = parts_with_aborted_transactions(
            self._metadata,
            request.topic_id_partition,
            log.leader_epochs,
            offset,
            log.local_log_start_offset,
        )
        return list(islice(parts, SEGMENTS_AT_ONCE))

    async def _all_aborted(
        self, request: RemoteReadRequest, result: _ThreadResult
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap the batches; their markers may be much later."""
        (transactions, complete), searched_parts = result.aborted, result.searched_parts
        upper_bound = result.read.next_offset
        distinct = dict.fromkeys(transactions)
        while not complete:
            searched_parts = self._segments_with_aborted(
                request, searched_parts[-1].end_offset if searched_parts else request.offset
            )
            if not searched_parts:
                transactions = request.log.aborted_transactions(request.offset, upper_bound)
                complete = True
            else:
                transactions, complete = await self._pool.run(
                    aborted.collect, self._index_cache, searched_parts, request.offset, upper_bound
                )
            distinct.update(dict.fromkeys(transactions))
        return list(distinct)

    # -- records by timestamp

    async def offset_for_timestamp(self, search: TimestampSearch) -> RecordPlace | None:
        """Return the first record at or after a timestamp among those that are in remote storage only.

        None if there is none: then the local log must be searched.
        """
        log = search.log
        with self._errors.converted(search.topic_id_partition, f"looking for timestamp {search.timestamp}"):
            for part in parts_with_timestamp(
                self._metadata,
                search.topic_id_partition,
                log.leader_epochs,
                search.timestamp,
                search.starting_offset,
            ):
                if part is None:
                    await asyncio.sleep(0)
                elif part.start_offset >= log.local_log_start_offset:
                    return None
                else:
                    place = await self._pool.run(self._timestamps.first_at_or_after, part, search.timestamp)
                    if place is not None:
                        return place
        return None

    # -- for followers

    async def fetch_auxiliary(self, metadata: RemoteLogSegmentMetadata) -> AuxiliaryState:
        """Return the leader epochs and the producers at the end of a segment."""
        with self._errors.converted(metadata.topic_id_partition, "fetching leader epochs and producers"):
            return await self._auxiliary_pool.run(fetch_auxiliary, self._storage, metadata)
