"""The object store as fsck reads it: listings, manifests, sizes (shell).

I/O: blocks; manifests are fetched by a few threads. Errors: RemoteStorageError if the store does not respond;
ConfigError for invalid settings of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Final, TypeVar

from tidelog.protocol.errors import DecodeError
from tidelog.remote.inspection.findings import Finding, Kind
from tidelog.remote.inspection.objects import orphan_findings, size_findings
from tidelog.remote.inspection.views import PartitionView
from tidelog.remote.objects.config import storage_manager_from_config
from tidelog.remote.objects.layout.manifest import MANIFEST_BYTES_MAX, SegmentManifest, decode_manifest
from tidelog.remote.objects.layout.object_keys import (
    BACKUPS_FOLDER,
    SegmentKeys,
    is_reference,
    parse_key,
    partition_prefix,
)
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.stores.port import ObjectInfo
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound, RemoteStorageError

THREADS: Final = 8

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_CHUNK_CACHE: Final = "fetch.chunk.cache."


class Bucket:
    """The store behind `storage`; inspections never write it."""

    def __init__(self, storage: ObjectStorageManager) -> None:
        self.storage = storage
        self._keys = storage.settings.keys

    @classmethod
    def open(cls, values: Mapping[str, str]) -> Bucket:
        """Return the store of a broker's `rsm.config.` values; its chunk cache is not used."""
        store_values = {key: text for key, text in values.items() if not key.startswith(_CHUNK_CACHE)}
        return cls(storage_manager_from_config({**store_values, f"{_CHUNK_CACHE}class": "none"}))

    def problem(self) -> str | None:
        """Return the error of a request to the store; None if the store responds."""
        try:
            self.storage.probe()
        except RemoteStorageError as error:
            return str(error)
        return None

    @property
    def prefix(self) -> str:
        """The common prefix of all keys."""
        return self._keys.prefix

    def close(self) -> None:
        """Disconnect."""
        self.storage.close()

    def keys(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        """Return the keys of a segment's objects. Errors: RemoteStorageError for damaged custom metadata."""
        try:
            return self._keys.of(metadata)
        except DecodeError as error:
            raise RemoteStorageError(f"{metadata.remote_log_segment_id}: {error}") from error

    def display_name(self, key: str) -> str:
        """Return `key` in the form that output may show."""
        return SegmentKeys(self.prefix, "", self._keys.masks_prefix).display_name(key)

    def objects(self, prefix: str | None = None) -> Iterator[ObjectInfo]:
        """Return the objects whose keys begin with `prefix`; None is the configured prefix.

        Backups of clusters are omitted.
        """
        backups = f"{self.prefix}{BACKUPS_FOLDER}/"
        for info in self.storage.store.list(self.prefix if prefix is None else prefix):
            if not info.key.startswith(backups):
                yield info

    def sizes(self, partition: TopicIdPartition) -> dict[str, int]:
        """Return the sizes in bytes of the objects of one partition, by key."""
        return dict(self.objects(partition_prefix(self.prefix, partition)))

    def manifest_bytes(self, key: str) -> bytes:
        """Return a manifest as it is stored: at most one byte more than a manifest may have."""
        with closing(self.storage.store.get(key)) as stream:
            return stream.read(MANIFEST_BYTES_MAX + 1)

    def manifest(self, key: str) -> SegmentManifest:
        """Return a manifest. Errors: DecodeError; RemoteResourceNotFound."""
        return decode_manifest(self.manifest_bytes(key), self.storage.settings.key_ring)

    def referenced_keys(self, views: Iterable[PartitionView]) -> set[str]:
        """Return the keys of the objects of other topics to which segments of `views` refer."""
        keys: set[str] = set()
        for view in views:
            for segment in view.segments:
                with suppress(DecodeError):
                    if is_reference(segment):
                        keys.update(self._keys.of(segment).all)
        return keys

    # --- findings -------------------------------------------------------------------------

    def findings(
        self, view: PartitionView, sizes: Mapping[str, int], on_segment: Callable[[], None] = lambda: None
    ) -> list[Finding]:
        """Return findings about the objects of the finished segments of `view`, and orphans.

        `sizes` are the sizes in bytes of the partition's objects. `on_segment` is called after each finished
        segment.
        """
        segments = view.segments
        expected: set[str] = set()
        findings: list[Finding] = []
        for segment in segments:
            try:
                expected.update(self.keys(segment).all)
            except RemoteStorageError as error:
                findings.append(
                    Finding.of_segment(Kind.MISSING_OBJECT, segment, "custom metadata", str(error))
                )
        visible = [segment for segment in segments if segment.state is _FINISHED and self._has_keys(segment)]

        def inspect(segment: RemoteLogSegmentMetadata) -> list[Finding]:
            return self._segment_findings(segment, sizes)

        for segment_findings in in_threads(inspect, visible):
            findings += segment_findings
            on_segment()
        return findings + orphan_findings(
            sizes,
            expected,
            view.history.deleted,
            name=view.partition.topic_partition,
            prefix=self.prefix,
            display_name=self.display_name,
        )

    def stray_findings(
        self, partitions: Iterable[TopicIdPartition], referenced: Collection[str] = ()
    ) -> Iterator[Finding]:
        """Return the objects below the prefix that belong to none of `partitions`.

        `referenced` are the keys of objects to which segments of other topics refer.
        """
        ids = {(partition.topic_id, partition.partition) for partition in partitions}
        for info in self.objects():
            name = parse_key(info.key, self.prefix)
            if name is None:
                yield Finding(Kind.FOREIGN_OBJECT, None, self.display_name(info.key))
            elif (
                name.partition.topic_id,
                name.partition.partition,
            ) not in ids and info.key not in referenced:
                detail = "no metadata names its partition"
                key = self.display_name(info.key)
                yield Finding(Kind.ORPHAN, name.partition.topic_partition, key, detail, name.segment_id)

    def _has_keys(self, segment: RemoteLogSegmentMetadata) -> bool:
        try:
            self.keys(segment)
        except RemoteStorageError:
            return False
        return True

    def _segment_findings(
        self, segment: RemoteLogSegmentMetadata, listed_sizes: Mapping[str, int]
    ) -> list[Finding]:
        keys = self.keys(segment)
        sizes = {
            key: listed_sizes[key] if key in listed_sizes else self._size(key)
            for key in (keys.log, keys.indexes)
        }
        try:
            manifest = self.manifest(keys.manifest)
        except RemoteResourceNotFound:
            missing = [key for key, size in sizes.items() if size is None]
            return [
                Finding.of_segment(Kind.MISSING_OBJECT, segment, keys.display_name(key))
                for key in (keys.manifest, *missing)
            ]
        except DecodeError as error:
            place = keys.display_name(keys.manifest)
            return [Finding.of_segment(Kind.BAD_MANIFEST, segment, place, str(error))]
        return list(size_findings(segment, keys, manifest, sizes))

    def _size(self, key: str) -> int | None:
        """Return the size of an object that was not listed: it may have another prefix, or be newer."""
        try:
            return self.storage.store.size(key)
        except RemoteResourceNotFound:
            return None


def in_threads(
    work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int = THREADS
) -> Iterator[_Result]:
    """Return the results of `work` for each of `items`, in their order; `threads` run at a time."""
    with ThreadPoolExecutor(threads, thread_name_prefix="tier-inspection") as pool:
        yield from pool.map(work, items)
