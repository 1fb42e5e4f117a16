"""Verification of a segment that was just copied: its local files are deleted only if the copy is complete.

A store may accept an object and lose it, or keep only a part of it, without an error. Therefore the objects
are read again before the copy counts as finished: the sizes of log and indexes, and the manifest, which is
needed to read the others. If the store has confirmed the checksums of all three, the size of the log
suffices. `CONTENTS` reads everything in the same way as readers and compares each byte.
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
from tidelog.remote.objects.stores.port import ObjectStore, OpenFile
from tidelog.remote.ports.storage_manager import IndexType, LogSegmentData, ReadableStream, RemoteStorageError
from tidelog.remote.ports.streams import ShortRead, read_exactly

_COMPARED_AT_ONCE_BYTES: Final = 1024 * 1024


class Verification(Enum):
    """The extent of the verification after a copy; the values are those of `copy.verification`."""

    NONE = "none"
    SIZES = "sizes"
    """The sizes of log and indexes, and the manifest; only the size of the log if checksums are confirmed."""
    CONTENTS = "contents"
    """All bytes: twice the traffic, for stores that may not retain what they accepted."""


def verify_sizes(store: ObjectStore, keys: SegmentKeys, written: Mapping[str, int]) -> None:
    """Compare the sizes of stored objects with what was written, by key.

    Errors: RemoteStorageError that names the object; RemoteResourceNotFound for a missing object.
    """
    for key, size in written.items():
        stored_size = store.size(key)
        if stored_size != size:
            raise RemoteStorageError(f"{keys.display_name(key)}: the store has {stored_size} of {size} bytes")


def verify_manifest(store: ObjectStore, keys: SegmentKeys, manifest: bytes) -> None:
    """Compare the stored manifest with the bytes that were written. Errors: like `verify_sizes`."""
    with closing(store.get(keys.manifest)) as stream:
        _require_same(stream, manifest, keys.display_name(keys.manifest))


def verify_contents(
    store: ObjectStore,
    keys: SegmentKeys,
    manifest: SegmentManifest,
    segment: LogSegmentData,
    indexes: Mapping[IndexType, bytes],
    open_file: OpenFile,
) -> None:
    """Read all of a segment as readers do, and compare it with the local files.

    I/O: one chunk of the log in memory at a time. Errors: RemoteStorageError; OSError of the local file.
    """
    remote = Segment(keys, manifest)
    name = keys.display_name(keys.log)
    with (
        open_file(segment.log) as file,
        closing(DirectSegmentStream(store, remote, 0, remote.size)) as stream,
    ):
        while local := file.read(_COMPARED_AT_ONCE_BYTES):
            _require_same(stream, local, name, is_all=False)
    with closing(store.get(keys.indexes)) as stream:
        for index_type, place in manifest.indexes.items():
            expected = indexes[index_type]
            name = f"{keys.display_name(keys.indexes)}: {index_type.value}"
            stored = _exactly(stream, place.size, name)
            if (manifest.index_transform.undo(stored, len(expected)) if expected else stored) != expected:
                raise RemoteStorageError(f"{name}: the store has other bytes than were written")


def _require_same(stream: ReadableStream, expected: bytes, name: str, *, is_all: bool = True) -> None:
    if _exactly(stream, len(expected), name) != expected or (is_all and stream.read(1)):
        raise RemoteStorageError(f"{name}: the store has other bytes than were written")


def _exactly(stream: ReadableStream, size: int, name: str) -> bytes:
    try:
        return bytes(read_exactly(stream, size))
    except ShortRead as error:
        raise RemoteStorageError(f"{name}: {error}") from error
