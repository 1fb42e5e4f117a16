"""Writes a segment to the store as three objects, and verifies them.

Log, indexes and manifest are put in this order. The manifest is the commit: without it nothing of the segment
can be read. Then the objects are verified (`copy.verification`).
"""

from __future__ import annotations

import logging
import os
from typing import BinaryIO

from tidelog.protocol.errors import DecodeError
from tidelog.remote.objects.layout.chunk_index import ChunkIndex
from tidelog.remote.objects.layout.custom_metadata import CustomField, CustomMetadata, encode_custom_metadata
from tidelog.remote.objects.layout.manifest import (
    INDEX_ORDER,
    SegmentManifest,
    encode_manifest,
    place_indexes,
)
from tidelog.remote.objects.layout.object_keys import SegmentKeys
from tidelog.remote.objects.layout.transform import Transform
from tidelog.remote.objects.manager_settings import ManagerSettings
from tidelog.remote.objects.stores.port import SYSTEM_PORTS, ObjectStore, OpenFile
from tidelog.remote.objects.upload import (
    TransformedLog,
    is_compressed,
    join_indexes,
    plain_chunk_index,
    read_head,
)
from tidelog.remote.objects.verification import Verification, verify_contents, verify_manifest, verify_sizes
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteStorageError,
    StoreUnavailable,
)

_log = logging.getLogger(__name__)


class SegmentWriter:
    """Puts the objects of segments.

    I/O: blocks; from any thread. Bounds: one chunk of the log and its indexes in memory.
    Errors: RemoteStorageError, one line that names the object.
    """

    def __init__(
        self, store: ObjectStore, settings: ManagerSettings, open_file: OpenFile = SYSTEM_PORTS.open_file
    ) -> None:
        self._store = store
        self._settings = settings
        self._open_file = open_file
        self._data_keys = None if settings.key_ring is None else settings.key_ring.data_keys()

    def create(
        self, keys: SegmentKeys, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData
    ) -> bytes | None:
        """Put and verify the objects of a new segment; return its custom metadata.

        If this fails, the objects are deleted as far as possible, except while the store is unavailable.
        """
        try:
            sizes = self.replace(keys, metadata, segment)
        except StoreUnavailable:
            raise  # the next attempt has the same keys
        except Exception as error:
            self._delete_objects(keys)
            if isinstance(error, RemoteStorageError):
                raise
            name = keys.display_name(keys.log)
            raise RemoteStorageError(f"cannot copy {name}: {type(error).__name__}: {error}") from error
        return self._custom_metadata(keys, sum(sizes))

    def replace(
        self, keys: SegmentKeys, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData
    ) -> tuple[int, int, int]:
        """Put the three objects, verify them, and return their sizes.

        After an error, the objects may be incomplete; nothing is deleted.
        """
        data_key = None
        if self._data_keys is not None:
            # A put of an earlier attempt may be executed late: all attempts must have the same key.
            data_key = self._data_keys.key_of(keys.log)
        with self._open_file(segment.log) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if size != metadata.segment_size_bytes:
                recorded_bytes = metadata.segment_size_bytes
                raise RemoteStorageError(
                    f"{segment.log} has {size} bytes, but {recorded_bytes} bytes in its metadata"
                )
            transform = Transform(self._should_compress(file, segment.log), data_key)
            chunk_index, log_bytes, log_is_confirmed = self._put_log(keys, file, size, transform)
        small_files = self._read_indexes(segment)
        indexes, index_sizes = join_indexes(small_files, INDEX_ORDER, Transform(data_key=data_key))
        indexes_are_confirmed = self._store.put(keys.indexes, indexes, len(indexes))
        manifest = SegmentManifest(chunk_index, place_indexes(index_sizes), transform)
        encoded = encode_manifest(manifest, metadata, self._settings.key_ring)
        manifest_is_confirmed = self._store.put(keys.manifest, encoded, len(encoded))
        if log_is_confirmed and indexes_are_confirmed and manifest_is_confirmed:
            if self._settings.verification is not Verification.NONE:
                verify_sizes(self._store, keys, {keys.log: log_bytes})
        elif self._settings.verification is not Verification.NONE:
            verify_sizes(self._store, keys, {keys.log: log_bytes, keys.indexes: len(indexes)})
            verify_manifest(self._store, keys, encoded)
        if self._settings.verification is Verification.CONTENTS:
            verify_contents(self._store, keys, manifest, segment, small_files, self._open_file)
        return log_bytes, len(indexes), len(encoded)

    def _put_log(
        self, keys: SegmentKeys, file: BinaryIO, size: int, transform: Transform
    ) -> tuple[ChunkIndex, int, bool]:
        """Put the log; return its chunks, its stored size, and whether the store has confirmed its bytes."""
        chunk_size = self._settings.chunk_size
        if transform.is_identity:
            is_confirmed = self._store.put(keys.log, file, size)
            return plain_chunk_index(size, chunk_size), size, bool(is_confirmed)
        source = TransformedLog(file, size, chunk_size, transform)
        is_confirmed = self._store.put(keys.log, source, source.size)
        return source.chunk_index(), source.stored_bytes, bool(is_confirmed)

    def _should_compress(self, file: BinaryIO, name: str) -> bool:
        """Return whether the log is compressed.

        With the heuristic, a log whose first batch is compressed, or cannot be read, is stored without
        compression.
        """
        if not (self._settings.compression and self._settings.compression_heuristic):
            return self._settings.compression
        try:
            return not is_compressed(read_head(file))
        except DecodeError as error:
            _log.warning(
                "Copying %s without compression because its first batch cannot be read: %s", name, error
            )
            return False

    def _read_indexes(self, segment: LogSegmentData) -> dict[IndexType, bytes]:
        files = {
            IndexType.OFFSET: segment.offset_index,
            IndexType.TIMESTAMP: segment.time_index,
            IndexType.PRODUCER_SNAPSHOT: segment.producer_snapshot,
        }
        if segment.transaction_index is not None:
            files[IndexType.TRANSACTION] = segment.transaction_index
        indexes = {IndexType.LEADER_EPOCH: segment.leader_epochs}
        for index_type, path in files.items():
            with self._open_file(path) as file:
                indexes[index_type] = file.read()
        return indexes

    def _delete_objects(self, keys: SegmentKeys) -> None:
        try:
            self._store.delete(keys.all)
        except Exception as error:
            _log.warning(
                "Cannot delete the objects of the failed copy %s: %s", keys.display_name(keys.log), error
            )

    def _custom_metadata(self, keys: SegmentKeys, remote_size: int) -> bytes | None:
        requested = self._settings.custom_fields
        fields = CustomMetadata(
            remote_size if CustomField.REMOTE_SIZE in requested else None,
            keys.prefix if CustomField.OBJECT_PREFIX in requested else None,
            keys.path if CustomField.OBJECT_KEY in requested else None,
        )
        return encode_custom_metadata(fields) or None
