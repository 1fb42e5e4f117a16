"""Segments round trip through the storage manager in every format."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.batches.producer_headers import data_header
from tests.support.tier.object_stores import MemoryStore
from tests.support.tier.sealed_segments import StoredSegment, make_segment
from tests.support.tier.segment_configs import compressible, key_pair
from tests.support.tier.settings import manager_settings
from tests.support.waiting import wait_until
from tests.unit.remote.objects.chunks.cached_segments import make_cache
from tidelog.protocol.batch import write_header
from tidelog.protocol.compression import Compression
from tidelog.remote.objects.chunks.cache import ChunkCache
from tidelog.remote.objects.layout.custom_metadata import (
    CustomField,
    CustomMetadata,
    decode_custom_metadata,
    encode_custom_metadata,
)
from tidelog.remote.objects.layout.encryption import KeyRing
from tidelog.remote.objects.layout.object_keys import ObjectKeys, main_path
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.manager_settings import ManagerSettings
from tidelog.remote.objects.stores.port import StorePorts
from tidelog.remote.objects.verification import Verification
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import (
    IndexType,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStorageManager,
)

RING = KeyRing("key1", {"key1": key_pair()})


def make_manager(
    store: MemoryStore, settings: ManagerSettings | None = None, cache: ChunkCache | None = None
) -> ObjectStorageManager:
    return ObjectStorageManager(store, settings or manager_settings(chunk_size=1000), cache)


def copy(manager: RemoteStorageManager, segment: StoredSegment) -> RemoteLogSegmentMetadata:
    """Copy the segment and return the metadata with which it is read."""
    return segment.with_custom_metadata(manager.copy_log_segment_data(segment.metadata, segment.files))


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[StoredSegment]:
    yield make_segment(tmp_path / "segment", compressible(3456), with_transactions=True)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_range_of_a_segment_is_the_slice_of_its_log(data: st.DataObject) -> None:
    log = compressible(data.draw(st.integers(1, 900)), seed=data.draw(st.integers(0, 3)))
    settings = manager_settings(
        keys=ObjectKeys("p/"),
        chunk_size=data.draw(st.integers(1, 1000)),
        compression=data.draw(st.booleans()),
        key_ring=RING if data.draw(st.booleans()) else None,
        custom_fields=tuple(data.draw(st.sets(st.sampled_from(CustomField)))),
    )
    store = MemoryStore()
    cache = None
    if data.draw(st.booleans()):
        cache = make_cache(
            store, size=data.draw(st.integers(0, 1500)), read_ahead=data.draw(st.integers(0, 900))
        )
    manager = make_manager(store, settings, cache)
    with tempfile.TemporaryDirectory() as directory:
        segment = make_segment(Path(directory), log, with_transactions=data.draw(st.booleans()))
        metadata = copy(manager, segment)
    for _ in range(4):
        start = data.draw(st.integers(0, len(log) - 1))
        end = data.draw(st.none() | st.integers(start, len(log) + 50))
        stream = manager.fetch_log_segment(metadata, start, end)
        size = data.draw(st.sampled_from([-1, 1, 7, 300, 5000]))
        expected = log[start:] if end is None else log[start : end + 1]
        assert b"".join(iter(partial(stream.read, size), b"")) == expected
        stream.close()
    for index_type, content in segment.indexes.items():
        assert manager.fetch_index(metadata, index_type).read() == content
    manager.delete_log_segment_data(metadata)
    assert store.objects == {}
    manager.close()


def test_the_manifest_is_written_last_and_deleted_first(segment: StoredSegment) -> None:
    store = MemoryStore()
    manager = make_manager(store)
    metadata = copy(manager, segment)
    manager.delete_log_segment_data(metadata)
    manager.delete_log_segment_data(metadata)
    suffixes = [(call.name, call.key.rpartition(".")[2]) for call in store.calls if call.name != "get"]
    deleted = [("delete", "rsm-manifest"), ("delete", "indexes"), ("delete", "log")]
    assert suffixes == [("put", "log"), ("put", "indexes"), ("put", "rsm-manifest"), *deleted, *deleted]


def test_an_unknown_segment_is_not_found(segment: StoredSegment) -> None:
    manager = make_manager(MemoryStore())
    with pytest.raises(RemoteResourceNotFound):
        manager.fetch_log_segment(segment.metadata, 0)
    with pytest.raises(RemoteResourceNotFound):
        manager.fetch_index(segment.metadata, IndexType.OFFSET)
    manager.delete_log_segment_data(segment.metadata)


@pytest.mark.parametrize(("start", "end"), [(-1, None), (5, 4), (3456, None), (4000, 5000)])
def test_invalid_ranges_are_refused(start: int, end: int | None, segment: StoredSegment) -> None:
    manager = make_manager(MemoryStore())
    metadata = copy(manager, segment)
    with pytest.raises(ValueError, match=r"is not a range of bytes|is beyond the end of the segment"):
        manager.fetch_log_segment(metadata, start, end)


def test_an_absent_transaction_index_is_not_found_and_an_empty_one_is_empty(tmp_path: Path) -> None:
    manager = make_manager(MemoryStore(), manager_settings(key_ring=RING))
    segment = make_segment(tmp_path, b"x" * 10, empty=frozenset({IndexType.PRODUCER_SNAPSHOT}))
    metadata = copy(manager, segment)
    with pytest.raises(RemoteResourceNotFound, match="the segment has no transaction index"):
        manager.fetch_index(metadata, IndexType.TRANSACTION)
    assert manager.fetch_index(metadata, IndexType.PRODUCER_SNAPSHOT).read() == b""


def test_all_small_files_of_a_segment_are_fetched_by_one_get(segment: StoredSegment) -> None:
    store = MemoryStore()
    manager = make_manager(store, manager_settings(key_ring=RING, verification=Verification.NONE))
    metadata = copy(manager, segment)
    for _ in range(2):
        for index_type, content in segment.indexes.items():
            assert manager.fetch_index(metadata, index_type).read() == content
    assert len(store.gets(".indexes")) == len(store.gets(".rsm-manifest")) == 1


def test_a_large_index_is_fetched_alone(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, b"x" * 10)
    Path(segment.files.time_index).write_bytes(bytes(5 << 20))
    store = MemoryStore()
    manager = make_manager(store)
    metadata = copy(manager, segment)
    assert manager.fetch_index(metadata, IndexType.OFFSET).read() == segment.indexes[IndexType.OFFSET]
    (call,) = store.gets(".indexes")
    assert (call.start, call.end) == (0, len(segment.indexes[IndexType.OFFSET]) - 1)


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_read_without_cache_is_one_get_of_the_needed_chunks(
    encrypted: bool, segment: StoredSegment
) -> None:
    store = MemoryStore()
    manager = make_manager(store, manager_settings(chunk_size=1000, key_ring=RING if encrypted else None))
    metadata = copy(manager, segment)
    with_stream = manager.fetch_log_segment(metadata, 1500, 2100)
    assert store.gets() == []
    assert with_stream.read(100) + with_stream.read() == segment.log[1500:2101]
    (call,) = store.gets()
    assert (call.start, call.end) == ((1028, 3083) if encrypted else (1500, 2100))


class CountingFile(io.FileIO):
    """Records the largest size of a read."""

    largest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        type(self).largest = max(type(self).largest, 1 << 62 if size is None or size < 0 else size)
        data = super().read(size)
        assert data is not None
        return data


@pytest.mark.parametrize("transformed", [False, True])
def test_a_copy_never_buffers_the_whole_log(transformed: bool, segment: StoredSegment) -> None:
    def open_counted(path: str) -> Any:
        return CountingFile(path, "rb") if path == segment.files.log else open(path, "rb")

    settings = manager_settings(
        chunk_size=500, compression=transformed, key_ring=RING if transformed else None
    )
    manager = ObjectStorageManager(MemoryStore(), settings, ports=StorePorts(open_file=open_counted))
    metadata = copy(manager, segment)
    assert 0 < CountingFile.largest <= 1000
    assert manager.fetch_log_segment(metadata, 0).read() == segment.log


def log_with_codec(codec: Compression) -> bytes:
    """Return a log that begins with a batch header of that codec, followed by other bytes."""
    log = bytearray(compressible(500))
    write_header(log, 0, data_header(1, 0, 0)._replace(attributes=codec))
    return bytes(log)


@pytest.mark.parametrize(
    ("codec", "is_compressed"), [(Compression.NONE, True), (Compression.LZ4, False), (None, False)]
)
def test_the_compression_heuristic_stores_a_compressed_log_unchanged(
    codec: Compression | None, is_compressed: bool, tmp_path: Path
) -> None:
    log = b"no batch at all" * 20 if codec is None else log_with_codec(codec)
    segment = make_segment(tmp_path, log)
    store = MemoryStore()
    manager = make_manager(store, manager_settings(compression=True, compression_heuristic=True))
    metadata = copy(manager, segment)
    (stored,) = [data for key, data in store.objects.items() if key.endswith(".log")]
    assert (stored != log) is is_compressed
    assert manager.fetch_log_segment(metadata, 0).read() == log


def test_a_reference_reads_the_objects_of_another_topic_and_never_deletes_them(
    segment: StoredSegment,
) -> None:
    store = MemoryStore()
    manager = make_manager(store)
    metadata = copy(manager, segment)
    before = dict(store.objects)
    partition = TopicIdPartition(UUID(int=7), "another", 0)
    reference = replace(
        metadata,
        remote_log_segment_id=RemoteLogSegmentId(partition, metadata.remote_log_segment_id.id),
        custom_metadata=encode_custom_metadata(CustomMetadata(source_path=main_path(metadata))),
    )
    assert manager.fetch_log_segment(reference, 0).read() == segment.log
    manager.delete_log_segment_data(reference)
    assert store.objects == before
    assert manager.fetch_log_segment(metadata, 0).read() == segment.log


def test_custom_metadata_has_the_configured_fields(segment: StoredSegment) -> None:
    store = MemoryStore()
    manager = make_manager(store, manager_settings(custom_fields=(CustomField.REMOTE_SIZE,)))
    custom_metadata = copy(manager, segment).custom_metadata
    assert custom_metadata is not None
    stored_bytes = sum(map(len, store.objects.values()))
    assert decode_custom_metadata(custom_metadata) == CustomMetadata(remote_size=stored_bytes)
    assert make_manager(store).copy_log_segment_data(segment.metadata, segment.files) is None


def test_a_segment_is_found_and_deleted_by_the_prefix_of_its_custom_metadata(
    segment: StoredSegment,
) -> None:
    store = MemoryStore()
    before = manager_settings(keys=ObjectKeys("old/"), custom_fields=(CustomField.OBJECT_PREFIX,))
    metadata = copy(make_manager(store, before), segment)
    manager = make_manager(store, manager_settings(keys=ObjectKeys("new/")))
    assert manager.fetch_log_segment(metadata, 0).read() == segment.log
    assert manager.fetch_index(metadata, IndexType.OFFSET).read() == segment.indexes[IndexType.OFFSET]
    manager.delete_log_segment_data(metadata)
    assert store.objects == {}


def test_corrupt_custom_metadata_is_a_storage_error(segment: StoredSegment) -> None:
    with pytest.raises(RemoteStorageError, match="custom metadata"):
        make_manager(MemoryStore()).fetch_log_segment(replace(segment.metadata, custom_metadata=b"\x05"), 0)


def test_a_log_file_of_another_size_than_its_metadata_is_not_copied(segment: StoredSegment) -> None:
    store = MemoryStore()
    metadata = replace(segment.metadata, segment_size_bytes=3000)
    with pytest.raises(RemoteStorageError, match="has 3456 bytes, but 3000 bytes in its metadata"):
        make_manager(store).copy_log_segment_data(metadata, segment.files)
    assert store.objects == {}


def test_a_missing_local_file_is_a_storage_error_without_leftovers(
    segment: StoredSegment,
) -> None:
    store = MemoryStore()
    Path(segment.files.time_index).unlink()
    with pytest.raises(RemoteStorageError, match=r"cannot copy .*\.log: FileNotFoundError"):
        make_manager(store).copy_log_segment_data(segment.metadata, segment.files)
    assert store.objects == {}


@pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest"])
@pytest.mark.parametrize("kind", ["compressed", "encrypted"])
def test_corruption_names_the_object_and_is_not_cached(
    kind: str, suffix: str, segment: StoredSegment
) -> None:
    store = MemoryStore()
    cache = make_cache(store)
    compressed = kind == "compressed"
    settings = manager_settings(
        chunk_size=1000, compression=compressed, key_ring=None if compressed else RING
    )
    manager = make_manager(store, settings, cache)
    metadata = copy(manager, segment)
    (key,) = [key for key in store.objects if key.endswith(suffix)]
    whole = store.objects[key]
    if compressed and suffix == ".indexes":
        store.objects[key] = whole[:-1]  # not encrypted: only a wrong length is detectable
    else:
        store.objects[key] = whole[:-200] + bytes([whole[-200] ^ 1]) + whole[-199:]
    if suffix == ".rsm-manifest":
        store.objects[key] = whole[:100]

    def read() -> None:
        assert manager.fetch_log_segment(metadata, 0).read() == segment.log
        for index_type, content in segment.indexes.items():
            assert manager.fetch_index(metadata, index_type).read() == content

    for _ in range(2):
        with pytest.raises(RemoteStorageError, match=key.replace(".", r"\.")):
            read()
    store.objects[key] = whole
    read()
    manager.close()


def test_a_hint_starts_reading_ahead_of_the_next_segment(tmp_path: Path) -> None:
    store = MemoryStore()
    cache = make_cache(store, read_ahead=2000)
    manager = make_manager(store, cache=cache)
    segment = make_segment(tmp_path, compressible(5000))
    metadata = copy(manager, segment)
    manager.prefetch_log_segment(metadata)
    wait_until(lambda: cache.cached_bytes == 2000)
    gets = len(store.gets())
    assert manager.fetch_log_segment(metadata, 0, 999).read() == segment.log[:1000]
    assert len(store.gets()) == gets == 1
    manager.close()
    assert store.is_closed


def test_a_hint_fetches_the_transaction_index_before_the_first_read(tmp_path: Path) -> None:
    store = MemoryStore()
    cache = make_cache(store, read_ahead=2000)
    manager = make_manager(store, cache=cache)
    segment = make_segment(tmp_path, compressible(5000), with_transactions=True)
    metadata = copy(manager, segment)
    before = len(store.gets(".indexes"))
    manager.prefetch_log_segment(metadata, with_transactions=True)
    wait_until(lambda: cache.cached_bytes == 2000 and len(store.gets(".indexes")) == before + 1)
    assert (
        manager.fetch_index(metadata, IndexType.TRANSACTION).read() == segment.indexes[IndexType.TRANSACTION]
    )
    assert len(store.gets(".indexes")) == before + 1
    manager.close()


def test_a_hint_fetches_the_manifest_alone(segment: StoredSegment) -> None:
    store = MemoryStore()
    cache = make_cache(store, read_ahead=2000)
    manager = make_manager(store, cache=cache)
    metadata = copy(manager, segment)
    before = len(store.gets("")), len(store.gets(".rsm-manifest"))
    manager.prefetch_manifest(metadata)
    wait_until(lambda: len(store.gets(".rsm-manifest")) > before[1])
    manager.close()
    assert len(store.gets("")) == before[0] + 1


def test_a_hint_for_a_deleted_segment_has_no_effect(segment: StoredSegment) -> None:
    store = MemoryStore()
    manager = make_manager(store, cache=make_cache(store, read_ahead=2000))
    manager.prefetch_log_segment(segment.metadata)
    wait_until(lambda: store.gets(".rsm-manifest"))
    manager.close()
    manager.prefetch_log_segment(segment.metadata)


def test_a_deleted_segment_is_not_read_from_a_cache(segment: StoredSegment) -> None:
    store = MemoryStore()
    manager = make_manager(store, cache=make_cache(store))
    metadata = copy(manager, segment)
    assert manager.fetch_log_segment(metadata, 0).read() == segment.log
    assert manager.fetch_index(metadata, IndexType.OFFSET).read()
    manager.delete_log_segment_data(metadata)
    for read in (
        lambda: manager.fetch_log_segment(metadata, 0),
        lambda: manager.fetch_index(metadata, IndexType.OFFSET),
    ):
        with pytest.raises(RemoteResourceNotFound):
            read()
    manager.close()
