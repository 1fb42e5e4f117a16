"""Whether a segment that was just written can be read: a local segment goes only for what is really there.

A store may take an object and lose it, or keep a part of it, without a word. So what was put is looked at
again before the copy counts: the sizes of log and small files, and the manifest itself, which is the
key to all the rest. `CONTENTS` reads everything back through the way of readers and compares each byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from enum import Enum
from typing import Final

from tidelog.remote.objects.chunks.segment_chunks import Segment
from tidelog.remote.objects.chunks.segment_stream import DirectSegmentStream
from tidelog.remote.objects.layout.manifest import SegmentManifest
from tidelog.remote.objects.layout.object_keys import SegmentKeys
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.ports.storage_manager import IndexType, LogSegmentData, ReadableStream, RemoteStorageError
from tidelog.remote.ports.streams import ShortRead, read_exactly

_COMPARED_AT_ONCE_BYTES: Final = 1024 * 1024


class Verification(Enum):
    """What is looked at after a copy; the values are those of the setting."""

    NONE = "none"
    SIZES = "sizes"
    """Two requests for sizes, and the manifest read back."""
    CONTENTS = "contents"
    """All of it read back: twice the traffic, for stores that are not trusted to keep what they took."""


def verify_objects(
    store: ObjectStore, keys: SegmentKeys, written: Mapping[str, int], manifest: bytes
) -> None:
    """Compare what is there with what was put: the sizes `written` by key, and the bytes of the manifest.

    Errors: RemoteStorageError that names the object; RemoteResourceNotFound when it is not there.
    """
    for key, size in written.items():
        found = store.size(key)
        if found != size:
            raise RemoteStorageError(f"{keys.shown(key)}: the store has {found} of {size} bytes")
    with closing(store.get(keys.manifest)) as stream:
        _require_same(stream, manifest, keys.shown(keys.manifest))


def verify_contents(
    store: ObjectStore,
    keys: SegmentKeys,
    manifest: SegmentManifest,
    segment: LogSegmentData,
    indexes: Mapping[IndexType, bytes],
) -> None:
    """Read all of a segment as readers do, and compare it with the local files.

    I/O: one chunk of the log in memory at a time. Errors: RemoteStorageError; OSError of the local file.
    """
    remote = Segment(keys, manifest)
    name = keys.shown(keys.log)
    with (
        open(segment.log, "rb") as file,
        closing(DirectSegmentStream(store, remote, 0, remote.size)) as stream,
    ):
        while local := file.read(_COMPARED_AT_ONCE_BYTES):
            _require_same(stream, local, name, is_all=False)
    with closing(store.get(keys.indexes)) as stream:
        for index_type, place in manifest.indexes.items():
            wanted = indexes[index_type]
            name = f"{keys.shown(keys.indexes)}: {index_type.value}"
            stored = _exactly(stream, place.size, name)
            if (manifest.index_transform.undo(stored, len(wanted)) if wanted else stored) != wanted:
                raise RemoteStorageError(f"{name}: the store has other bytes than were written")


def _require_same(stream: ReadableStream, wanted: bytes, name: str, *, is_all: bool = True) -> None:
    if _exactly(stream, len(wanted), name) != wanted or (is_all and stream.read(1)):
        raise RemoteStorageError(f"{name}: the store has other bytes than were written")


def _exactly(stream: ReadableStream, size: int, name: str) -> bytes:
    try:
        return bytes(read_exactly(stream, size))
    except ShortRead as error:
        raise RemoteStorageError(f"{name}: {error}") from error
