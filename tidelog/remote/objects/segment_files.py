"""The manifests and the indexes of segments: read from the store, decrypted, and cached."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final, TypeVar

from tidelog.base.clock import SYSTEM_CLOCK, Clock
from tidelog.protocol.errors import DecodeError
from tidelog.remote.objects.chunks.loading_cache import LoadingCache
from tidelog.remote.objects.chunks.segment_chunks import Segment
from tidelog.remote.objects.layout.encryption import OVERHEAD_BYTES
from tidelog.remote.objects.layout.manifest import (
    MANIFEST_BYTES_MAX,
    IndexPlace,
    SegmentManifest,
    decode_manifest,
)
from tidelog.remote.objects.layout.object_keys import SegmentKeys
from tidelog.remote.objects.layout.transform import DamagedChunk
from tidelog.remote.objects.manager_settings import ManagerSettings
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.ports.storage_manager import (
    DamagedSegment,
    IndexType,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tidelog.remote.ports.streams import ShortRead, read_exactly

_T = TypeVar("_T")

_INDEXES_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
"""Indexes that are together not longer than this are fetched by one GET."""


class SegmentFiles:
    """The small files of segments.

    I/O: blocks; from any thread. Bounds: those of the two caches in `settings`.
    Errors: RemoteStorageError; DamagedSegment names the object; RemoteResourceNotFound.
    """

    def __init__(self, store: ObjectStore, settings: ManagerSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._key_ring = settings.key_ring
        self._manifests: LoadingCache[str, SegmentManifest] = LoadingCache(
            settings.manifest_cache, lambda _: 1, clock
        )
        self._indexes: LoadingCache[tuple[str, IndexType], bytes] = LoadingCache(
            settings.index_cache, len, clock
        )

    def segment(self, keys: SegmentKeys) -> Segment:
        """Return a segment with its manifest."""
        manifest = self._manifests.get(keys.manifest, lambda: self._load_manifest(keys))
        return Segment(keys, manifest)

    def cached_segment(self, keys: SegmentKeys) -> Segment | None:
        """Return a segment if its manifest is cached, else None."""
        manifest = self._manifests.peek(keys.manifest)
        return None if manifest is None else Segment(keys, manifest)

    def index(self, segment: Segment, index_type: IndexType) -> bytes:
        """Return one index of a segment."""
        place = segment.manifest.indexes.get(index_type)
        if place is None:
            name = segment.keys.display_name(segment.keys.indexes)
            raise RemoteResourceNotFound(f"{name}: the segment has no {index_type.value} index")
        if place.size == 0:
            return b""
        key = segment.keys.indexes
        return self._indexes.get((key, index_type), lambda: self._load_index(segment, index_type))

    def forget(self, keys: SegmentKeys) -> None:
        """Remove the manifest and the indexes of a segment from the caches."""
        self._manifests.forget(keys.manifest)
        for index_type in IndexType:
            self._indexes.forget((keys.indexes, index_type))

    def _load_manifest(self, keys: SegmentKeys) -> SegmentManifest:
        with closing(self._store.get(keys.manifest)) as stream:
            data = stream.read(MANIFEST_BYTES_MAX + 1)
        if len(data) > MANIFEST_BYTES_MAX:
            raise RemoteStorageError(
                f"{keys.display_name(keys.manifest)}: the manifest is longer than {MANIFEST_BYTES_MAX} bytes"
            )
        return _with_object_name(keys, keys.manifest, lambda: decode_manifest(data, self._key_ring))

    def _load_index(self, segment: Segment, requested: IndexType) -> bytes:
        """Return the `requested` index; if one GET fetches all indexes, cache the others."""
        places = segment.manifest.indexes
        total = max(place.position + place.size for place in places.values())
        own_place = places[requested]
        span = IndexPlace(0, total) if total <= _INDEXES_AT_ONCE_BYTES else own_place
        key = segment.keys.indexes
        with closing(self._store.get(key, span.position, span.position + span.size - 1)) as stream:
            data = memoryview(_with_object_name(segment.keys, key, lambda: read_exactly(stream, span.size)))

        def small_file(place: IndexPlace) -> bytes:
            begin = place.position - span.position
            stored = data[begin : begin + place.size]
            transform = segment.manifest.index_transform
            size = place.size if transform.is_identity else place.size - OVERHEAD_BYTES
            return _with_object_name(segment.keys, key, lambda: bytes(transform.undo(stored, size)))

        if span is not own_place:
            for index_type, place in places.items():
                if place.size and index_type is not requested:
                    self._indexes.put((key, index_type), small_file(place))
        return small_file(own_place)


def _with_object_name(keys: SegmentKeys, key: str, action: Callable[[], _T]) -> _T:
    """Return the result of `action`; convert errors of damaged data to errors of the object `key`."""
    try:
        return action()
    except (DecodeError, DamagedChunk) as error:
        raise DamagedSegment(f"{keys.display_name(key)}: {error}") from error
    except ShortRead as error:
        raise RemoteStorageError(f"{keys.display_name(key)}: {error}") from error
