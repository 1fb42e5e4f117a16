"""A remote storage whose requests wait until the test responds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tidelog.broker.fetching.remote_fetch import RemoteAccess, RemoteFetchMemory
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.protocol.ids import Offset
from tidelog.remote.reading.requests import RemoteRead, RemoteReadRequest, TimestampSearch
from tidelog.storage.log.partition_log import PartitionLog, RecordPlace


@dataclass(eq=False)
class FakeReader:
    """Keeps each request with the future of its result."""

    reads: list[tuple[RemoteReadRequest, asyncio.Future[RemoteRead]]] = field(default_factory=list)
    searches: list[tuple[TimestampSearch, asyncio.Future[RecordPlace | None]]] = field(default_factory=list)
    throttle_time_ms: int = 0
    memory: RemoteFetchMemory = field(default_factory=RemoteFetchMemory)

    def read(self, request: RemoteReadRequest) -> asyncio.Future[RemoteRead]:
        outcome: asyncio.Future[RemoteRead] = asyncio.get_running_loop().create_future()
        self.reads.append((request, outcome))
        return outcome

    def offset_for_timestamp(self, search: TimestampSearch) -> asyncio.Future[RecordPlace | None]:
        outcome: asyncio.Future[RecordPlace | None] = asyncio.get_running_loop().create_future()
        self.searches.append((search, outcome))
        return outcome

    def fetch_throttle_time_ms(self) -> int:
        return self.throttle_time_ms


class FakeTier:
    """A RemoteAccess over a FakeReader, with the purgatories of waiting requests."""

    def __init__(self, timers: Timers, max_wait_ms: int = 500) -> None:
        self.reader = FakeReader()
        self.fetches = Purgatory("RemoteFetch", timers)
        self.list_offsets = Purgatory("RemoteListOffsets", timers)
        self.access = RemoteAccess(
            self.reader, self.fetches, self.list_offsets, lambda: max_wait_ms, lambda: 30_000
        )


def move_to_remote(log: PartitionLog, end_offset: Offset, now_ms: int) -> None:
    """Move everything below `end_offset`, which must be a segment end, to remote storage only."""
    log.remote_border.raise_highest_offset(end_offset - 1)
    log.retention.apply(now_ms)
    assert log.local_log_start_offset == end_offset, f"the local log starts at {log.local_log_start_offset}"
