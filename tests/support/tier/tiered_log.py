"""A log whose sealed segments are in the tier, and a reader of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.support.configs import log_config
from tests.support.logs.partition_logs import append, append_marker
from tests.support.tier.metadata_managers import InMemoryRemoteLogMetadataManager
from tests.support.tier.remote_tier import (
    PARTITION,
    LocalPart,
    MemoryTier,
    copy_sealed_segments,
)
from tidelog.base.bounded_pool import BoundedPool
from tidelog.protocol.compression import Compression
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.reading.reader import RemoteLogReader
from tidelog.remote.reading.requests import RemoteRead, RemoteReadRequest
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

CONFIG = log_config(segment_bytes=2500, index_interval_bytes=300, retention_ms=-1)


@dataclass
class TieredLogFixture:
    """A log, the tier with its sealed segments, and a reader that has access only to the tier."""

    log: PartitionLog
    tier: MemoryTier
    manager: InMemoryRemoteLogMetadataManager
    reader: RemoteLogReader
    pool: BoundedPool
    cache: RemoteIndexCache
    local: LocalPart
    segments: list[RemoteLogSegmentMetadata]

    def request(self, offset: int, max_bytes: int = 1000, **changes: object) -> RemoteReadRequest:
        request = RemoteReadRequest(PARTITION, offset, max_bytes, True, 1 << 60, False, self.local)
        return replace(request, **changes)  # type: ignore[arg-type]

    async def read(self, offset: int, max_bytes: int = 1000, **changes: object) -> RemoteRead:
        return await self.reader.read(self.request(offset, max_bytes, **changes))

    def expected_bytes(self, offset: int, max_bytes: int, at_least_one: bool, upper_bound: int) -> bytes:
        result = self.log.read(offset, max_bytes, upper_bound=upper_bound, at_least_one=at_least_one)
        return b"" if result.records is None else result.records.read()


def fill(log: PartitionLog, random: Random) -> None:
    """Append batches of all codecs and sizes, in increasing epochs, with both results of transactions."""
    epoch, now, open_producers, sequences = 0, 1000, dict[int, int](), dict[int, int]()
    for _ in range(150):
        if random.random() < 0.08:
            epoch += random.randint(1, 3)
        now += random.randint(-50, 120)
        if open_producers and random.random() < 0.3:
            producer = random.choice(list(open_producers))
            del open_producers[producer]
            append_marker(log, producer, is_abort=random.random() < 0.6, leader_epoch=epoch)
            continue
        count = random.randint(1, 6)
        options: dict[str, object] = {}
        if random.random() < 0.5:
            producer = random.randint(1, 4)
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + count
            open_producers[producer] = 1
            options = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "is_transactional": True,
            }
        values = ["x" * random.randint(0, 60) + str(random.random()) for _ in range(count)]
        times = [now + random.randint(-30, 30) for _ in values]
        codec = random.choice(list(Compression))
        append(log, *values, timestamps=times, compression=codec, leader_epoch=epoch, **options)
    for producer in open_producers:
        append_marker(log, producer, is_abort=True, leader_epoch=epoch)


async def fixture_of(log: PartitionLog) -> TieredLogFixture:
    tier, manager = MemoryTier(), InMemoryRemoteLogMetadataManager()
    cache = RemoteIndexCache(CrashFileSystem(), "/data", tier, 1 << 30)
    cache.load()
    pool = BoundedPool("reader", 3, 100)
    segments = await copy_sealed_segments(log, tier, manager)
    reader = RemoteLogReader(tier, manager, cache, pool)
    local = LocalPart(log, log.segments.active.base_offset)
    return TieredLogFixture(log, tier, manager, reader, pool, cache, local, segments)
