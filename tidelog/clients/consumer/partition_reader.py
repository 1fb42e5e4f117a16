"""Reads one range of one partition, without a group and without committed positions (shell).

    reader = PartitionReader("localhost:9092", TopicPartition("tides", 3), start_offset=100, end_offset=200)
    async with reader:
        async for record in reader.records():
            ...

The next fetch is in flight while the application processes the last one. `fetched_ranges` yields the bytes as
in the log, for callers that decode many records at once.

With `client_rack`, the leader may name a nearer replica (KIP-392), which is then used. If that replica
returns no data or an error, the rest is fetched from the leader, without the rack. With `replica`, only this
replica is used, and CORRUPT_MESSAGE is not retried, because the replica would return the same bytes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from tidelog.clients.config.client_config import ConsumerConfig, make_config
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.clients.consumer.fetched_data import FetchedData
from tidelog.clients.consumer.offset_requests import OffsetsByTimestamp
from tidelog.clients.consumer.partition_state import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.metadata.leader_requests import send_to_leaders
from tidelog.clients.transport.failures import STALE_METADATA, failure
from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, crc_is_valid, read_header
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import NO_LEADER_EPOCH, BrokerId, Offset, ProducerId, TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidelog.protocol.schema import ZERO_UUID

_NO_SESSION_EPOCH = -1
_HIGHEST_VERSION_BY_NAME = 12


class FetchedRange(NamedTuple):
    """The batches of one fetch; the first may begin before the range, and the last may be incomplete.

    `aborted`: producer id and first offset of the aborted transactions; None with read_uncommitted.
    """

    records: memoryview
    aborted: tuple[tuple[ProducerId, Offset], ...] | None


class PartitionReader:
    """Reads from `start_offset` (None: the first offset) to `end_offset` (exclusive).

    `end_offset` None means the end of the partition when reading begins (read_committed: the last stable
    offset). `replica` is the broker to read from; None: the leader, or the nearest replica if `client_rack`
    is set. `client` is an open client, which remains open; None: one of its own. Options: see
    `ConsumerConfig`. Errors: KafkaError(OFFSET_OUT_OF_RANGE) if the range is not in the log. Retriable errors
    are retried until there was no progress for `default_api_timeout_ms`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topic_partition: TopicPartition | tuple[str, int],
        *,
        start_offset: Offset | None = None,
        end_offset: Offset | None = None,
        replica: BrokerId | None = None,
        client: ClusterClient | None = None,
        **options: Any,
    ) -> None:
        self.config = make_config(ConsumerConfig, {"bootstrap_servers": bootstrap_servers, **options})
        self.topic_partition = TopicPartition(*topic_partition)
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._shared_client = client
        self._next_fetch: asyncio.Task[PartitionData] | None = None
        self._rack = self.config.client_rack
        self._replica = replica
        self._nearest_replica: BrokerId | None = None

    async def __aenter__(self) -> PartitionReader:
        if self._shared_client is not None:
            self._client = self._shared_client
            return self
        self._client = ClusterClient(
            self.config, None, None, allow_auto_topic_creation=False, max_idle_ms=None
        )
        await self._client.open(self._deadline_ms())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._cancel_next_fetch()
        if self._shared_client is None:
            await self._client.close()

    async def range(self) -> tuple[Offset, Offset]:
        """Return the first offset and the end (exclusive) of the range."""
        start, end = self._start_offset, self._end_offset
        if start is None:
            start = self._start_offset = await self._offset_of(EARLIEST_TIMESTAMP)
        if end is None:
            end = self._end_offset = await self._offset_of(LATEST_TIMESTAMP)
        return start, end

    async def log_start_offset(self) -> Offset:
        """Return the current log start offset of the partition."""
        return await self._offset_of(EARLIEST_TIMESTAMP)

    async def log_end_offset(self) -> Offset:
        """Return the current end of the partition (read_committed: the last stable offset)."""
        return await self._offset_of(LATEST_TIMESTAMP)

    async def fetched_ranges(self) -> AsyncIterator[FetchedRange]:
        """Yield the data of each fetch of the range, for callers that decode many records at once."""
        start, end = await self.range()
        async for _, data in self._fetches(start, end):
            assert data.records is not None
            yield FetchedRange(memoryview(data.records), self._aborted_transactions(data))

    async def records(self) -> AsyncIterator[ConsumerRecord]:
        """Yield each record in the range; with read_committed, without those of aborted transactions."""
        start, end = await self.range()
        async for fetch_offset, data in self._fetches(start, end):
            fetched = self._fetched_data(data, fetch_offset)
            while not fetched.is_drained:
                for record in fetched.take(self.config.max_poll_records):
                    if record.offset >= end:
                        return
                    yield record

    # --- inside ---------------------------------------------------------------------------

    async def _fetches(self, start: Offset, end: Offset) -> AsyncIterator[tuple[Offset, PartitionData]]:
        """Yield fetched data with its fetch offset."""
        offset = start
        await self._cancel_next_fetch()
        while offset < end:
            task = self._next_fetch or asyncio.create_task(self._fetch(offset))
            self._next_fetch = task
            data = await task
            self._next_fetch = None
            next_offset = self._next_offset(data, offset)
            if next_offset < end:
                self._next_fetch = asyncio.create_task(self._fetch(next_offset))
            yield offset, data
            offset = next_offset

    def _next_offset(self, data: PartitionData, fetch_offset: Offset) -> Offset:
        assert data.records is not None
        *_, (_, last) = self._complete_batches(memoryview(data.records), fetch_offset)
        return last.next_offset

    def _complete_batches(self, records: memoryview, fetch_offset: Offset) -> list[tuple[int, BatchHeader]]:
        batches: list[tuple[int, BatchHeader]] = []
        position = 0
        try:
            while len(records) - position >= BATCH_OVERHEAD:
                header = read_header(records, position)
                if position + header.size_bytes > len(records):
                    break
                if header.last_offset >= fetch_offset:
                    if self.config.check_crcs and not crc_is_valid(records, position, header):
                        raise DecodeError(f"checksum of the batch at offset {header.base_offset} is wrong")
                    batches.append((position, header))
                position += header.size_bytes
        except DecodeError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}") from error
        if not batches:
            text = f"{self.topic_partition}: no complete batch at offset {fetch_offset}"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
        return batches

    def _fetched_data(self, data: PartitionData, fetch_offset: Offset) -> FetchedData:
        assert data.records is not None
        return FetchedData(
            self.topic_partition,
            data.records,
            fetch_offset,
            NO_LEADER_EPOCH,
            aborted=self._aborted_transactions(data),
            check_crcs=False,  # `_complete_batches` has checked them
            max_decompressed_bytes=self.config.max_decompressed_bytes,
        )

    def _aborted_transactions(self, data: PartitionData) -> tuple[tuple[ProducerId, Offset], ...] | None:
        if not self.config.read_committed:
            return None
        return tuple((entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ())

    async def _fetch(self, offset: Offset) -> PartitionData:
        """Fetch at `offset` until there are records; retry after retriable errors."""
        deadline_ms = self._deadline_ms()
        attempt = 0
        while True:
            try:
                data = await self._fetch_once(offset, deadline_ms)
                if data.records:
                    return data
                if self._nearest_replica is not None:
                    self._use_leader()
                elif self._rack and data.preferred_read_replica >= 0:
                    self._nearest_replica = BrokerId(data.preferred_read_replica)
                if self._client.now_ms() >= deadline_ms:
                    text = f"{self.topic_partition} has no data at offset {offset}"
                    raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, text)
                continue
            except KafkaError as error:
                if self._nearest_replica is not None:
                    # The follower may lag behind or be stopped: fetch from the leader.
                    self._use_leader()
                    continue
                delay_ms = self._client.backoff.delay_ms(attempt, self._client.environment.rng)
                if not self._is_temporary(error.code) or self._client.now_ms() + delay_ms >= deadline_ms:
                    raise
                if error.code in STALE_METADATA:
                    self._client.updater.request_update()
            await asyncio.sleep(delay_ms / 1000)
            attempt += 1

    def _is_temporary(self, code: ErrorCode) -> bool:
        if code is ErrorCode.CORRUPT_MESSAGE and self._replica is not None:
            return False
        # Brokers return UNKNOWN_SERVER_ERROR if remote storage fails or too many reads wait.
        return code.retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR

    def _use_leader(self) -> None:
        self._nearest_replica = None
        self._rack = ""

    async def _fetch_once(self, offset: Offset, deadline_ms: int) -> PartitionData:
        client, config = self._client, self.config
        await client.updater.ensure_topic(self.topic_partition.topic, deadline_ms)
        leader = client.metadata.leader(self.topic_partition)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{self.topic_partition} has no leader")
        request, highest_version = self._fetch_request(offset)
        nearest = self._nearest_replica
        if self._replica is not None:
            destination = self._replica
        else:
            destination = leader if nearest is None or nearest not in client.metadata.brokers else nearest
        response = await client.network.request(
            destination,
            request,
            FetchResponse,
            timeout_ms=config.request_timeout_ms + config.fetch_max_wait_ms,
            highest_version=highest_version,
        )
        subject = f"fetch of {self.topic_partition} at offset {offset}"
        if response.error_code != ErrorCode.NONE:
            raise failure(response.error_code, subject)
        for topic_data in response.responses:
            for data in topic_data.partitions:
                if data.error_code != ErrorCode.NONE:
                    raise failure(data.error_code, subject)
                return data
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{subject}: the response is empty")

    def _fetch_request(self, offset: Offset) -> tuple[FetchRequest, int | None]:
        """Return the request for one fetch at `offset`, and its highest version (None: any)."""
        config, metadata = self.config, self._client.metadata
        topic, number = self.topic_partition
        partition = FetchPartition(
            partition=number,
            current_leader_epoch=metadata.leader_epoch(self.topic_partition),
            fetch_offset=offset,
            partition_max_bytes=config.max_partition_fetch_bytes,
        )
        topic_id = metadata.topic_id(topic)
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.read_committed),
            session_epoch=_NO_SESSION_EPOCH,
            topics=(FetchTopic(topic=topic, topic_id=topic_id, partitions=(partition,)),),
            rack_id=self._rack,
        )
        return request, _HIGHEST_VERSION_BY_NAME if topic_id == ZERO_UUID else None

    async def _offset_of(self, timestamp: int) -> Offset:
        timestamps = {self.topic_partition: timestamp}
        api = OffsetsByTimestamp(
            timestamps,
            self._client.metadata,
            read_committed=self.config.read_committed,
            timeout_ms=self.config.request_timeout_ms,
        )
        found = await send_to_leaders(self._client, timestamps, api, self._deadline_ms())
        found.raise_first()
        return found.results[self.topic_partition].offset

    async def _cancel_next_fetch(self) -> None:
        if self._next_fetch is not None:
            self._next_fetch.cancel()
            await asyncio.wait({self._next_fetch})
            self._next_fetch = None

    def _deadline_ms(self) -> int:
        return self._client.now_ms() + self.config.default_api_timeout_ms
