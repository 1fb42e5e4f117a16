"""A segment in a store in memory, with a cache."""

from __future__ import annotations

from tests.support.tier.object_stores import MemoryStore
from tests.support.tier.settings import cache_settings
from tidelog.remote.objects.chunks.cache import ChunkCache
from tidelog.remote.objects.chunks.segment_chunks import Segment
from tidelog.remote.objects.chunks.storage import ChunkStorage, MemoryStorage
from tidelog.remote.objects.layout.manifest import SegmentManifest
from tidelog.remote.objects.layout.object_keys import SegmentKeys
from tidelog.remote.objects.layout.transform import Transform
from tidelog.remote.objects.upload import plain_chunk_index


def put_segment(store: MemoryStore, log: bytes, chunk_size: int, name: str = "segment") -> Segment:
    """Store a segment without transformation and return it."""
    keys = SegmentKeys("", f"topic/0/{name}")
    store.objects[keys.log] = log
    return Segment(keys, SegmentManifest(plain_chunk_index(len(log), chunk_size), {}, Transform()))


def make_cache(
    store: MemoryStore,
    *,
    size: int | None = 1 << 20,
    read_ahead: int = 0,
    threads: int = 2,
    storage: ChunkStorage | None = None,
    get_timeout_ms: int = 30_000,
) -> ChunkCache:
    """Return a cache in memory."""
    settings = cache_settings(size=size, threads=threads, get_timeout_ms=get_timeout_ms)
    return ChunkCache(store, storage or MemoryStorage(), settings, read_ahead)
