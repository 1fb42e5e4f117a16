"""Reads remote segments for requests, with metrics and the quota of remote fetches (KIP-956)."""

from __future__ import annotations

from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.fetching.remote_fetch import RemoteFetchMemory
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.reading.auxiliary import AuxiliaryState
from tidelog.remote.reading.reader import RemoteLogReader
from tidelog.remote.reading.requests import RemoteRead, RemoteReadRequest, TimestampSearch
from tidelog.remote.tasks.byte_rate import ByteRate
from tidelog.remote.tasks.figures import RemoteFigures
from tidelog.storage.log.lookup import RecordPlace

MEMORY_WAIT_MS: Final = 100
"""The estimated time until other fetches have ended. The client's next fetch checks again."""


class MeteredReader:
    """Forwards reads to a remote log reader and counts them.

    Errors: PoolFull, KafkaError; see `RemoteLogReader`.
    """

    def __init__(
        self,
        reader: RemoteLogReader,
        figures: RemoteFigures,
        quota: ByteRate,
        clock: Clock,
        memory: RemoteFetchMemory | None = None,
    ) -> None:
        self._reader = reader
        self._figures = figures
        self._quota = quota
        self._clock = clock
        self.memory = RemoteFetchMemory() if memory is None else memory
        self.reads = 0
        """The number of reads that have ended."""
        self.read_time_ms = 0
        """The total duration of these reads."""

    async def read(self, request: RemoteReadRequest) -> RemoteRead:
        """Return complete batches of one remote segment, from the one with the requested offset."""
        figures = self._figures.topic(request.topic_id_partition.topic)
        figures.fetch_requests += 1
        started_ms = self._clock.monotonic_ms()
        try:
            read = await self._reader.read(request)
        except Exception as error:
            # An offset that does not exist is an error of the client, not of the reader.
            if not isinstance(error, KafkaError) or error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                figures.fetch_errors += 1
            if isinstance(error, KafkaError) and error.code is ErrorCode.CORRUPT_MESSAGE:
                figures.fetch_damages += 1
            raise
        finally:
            self.reads += 1
            self.read_time_ms += self._clock.monotonic_ms() - started_ms
        figures.fetch_bytes += len(read.records)
        self._quota.record(len(read.records), self._clock.monotonic_ms())
        return read

    async def offset_for_timestamp(self, search: TimestampSearch) -> RecordPlace | None:
        """Return the first record at or after a timestamp among those that are only in remote storage.

        None if there is none: then the local log must be searched.
        """
        return await self._reader.offset_for_timestamp(search)

    async def fetch_auxiliary(self, metadata: RemoteLogSegmentMetadata) -> AuxiliaryState:
        """Return leader epochs and producers at the end of a segment; the fetcher counts the attempts."""
        return await self._reader.fetch_auxiliary(metadata)

    def fetch_throttle_time_ms(self) -> int:
        """Return how long clients must wait for quota or memory; 0 if they may read now."""
        if self.memory.is_used_up:
            return MEMORY_WAIT_MS
        wait_ms = self._quota.throttle_ms(self._clock.monotonic_ms())
        if wait_ms:
            self._figures.fetch_throttle_time_ms += wait_ms
            self._figures.fetch_throttle_count += 1
        return wait_ms
