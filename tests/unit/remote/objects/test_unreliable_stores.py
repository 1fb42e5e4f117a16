"""Copies and reads of stores with stale listings, wrong lengths, 503s, slow bodies and object versions.

Whatever the store does, a reader gets the bytes of the segment or an error.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest

from tests.support.s3.fault_proxy import (
    Fault,
    FaultProxy,
    fault_proxy,
    reset,
    server_error,
    slow_down,
    slow_response,
    truncate,
)
from tests.support.s3.server import S3Server, s3_server
from tests.support.tier.bucket import TierBucket
from tests.support.tier.object_stores import MemoryStore
from tests.support.tier.sealed_segments import StoredSegment, make_segment
from tests.support.tier.segment_configs import KINDS, compressible, configs_of, key_pair, write_key_pair
from tests.support.tier.settings import manager_settings
from tests.unit.remote.objects.chunks.cached_segments import make_cache
from tidelog.remote.objects.config import storage_manager_from_config
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.stores.port import Content, ObjectInfo
from tidelog.remote.ports.storage_manager import (
    ReadableStream,
    RemoteResourceNotFound,
    RemoteStorageError,
)

LOG_BYTES = 300_000
TRANSIENT: dict[str, Fault] = {
    "503": server_error(503, "ServiceUnavailable"),
    "slow down": slow_down(),
    "reset": reset(),
    "short body": truncate(keep=1000),
    "empty body": truncate(keep=0),
    "trickling body": slow_response(bytes_per_s=2_000_000),
}


@pytest.fixture
def segment(tmp_path: Path) -> StoredSegment:
    return make_segment(tmp_path / "segment", compressible(LOG_BYTES), with_transactions=True)


def require_whole(manager: ObjectStorageManager, segment: StoredSegment, custom: bytes | None = None) -> None:
    metadata = segment.with_custom_metadata(custom)
    with closing(manager.fetch_log_segment(metadata, 0)) as stream:
        assert stream.read() == segment.log
    for index_type, content in segment.indexes.items():
        assert manager.fetch_index(metadata, index_type).read() == content


# -- listings


class UnlistedStore(MemoryStore):
    """A store whose listing must not be used."""

    def list(self, prefix: str, start_after: str = "") -> NoReturn:
        raise AssertionError(f"objects were listed: {prefix}")


def test_copies_reads_and_deletions_need_no_listing(segment: StoredSegment) -> None:
    store = UnlistedStore()
    manager = ObjectStorageManager(store, manager_settings(chunk_size=10_000))
    manager.copy_log_segment_data(segment.metadata, segment.files)
    require_whole(manager, segment)
    manager.replace_log_segment_data(segment.metadata, segment.files)
    require_whole(manager, segment)
    manager.delete_log_segment_data(segment.metadata)
    assert store.objects == {}
    manager.close()


def test_a_stale_listing_hides_no_object_and_reports_no_damage(tmp_path: Path) -> None:
    """The listing lacks the newest objects; fsck requests the sizes of those that it expects."""
    tier = TierBucket(tmp_path)
    tier.fill()
    tier.copy()
    store = tier.bucket.storage.store
    listed = list(store.list(""))
    newest = tier.bucket.keys(tier.segments[-1]).all

    def list_without_last(prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        keys = (info for info in listed if info.key.startswith(prefix) and info.key > start_after)
        return (info for info in keys if info.key not in newest)

    store.list = list_without_last  # type: ignore[method-assign]
    assert tier.findings() == []
    tier.bucket.close()


# -- lengths


class WrongLengthStore(MemoryStore):
    """Returns more or fewer bytes than requested from the objects whose key has a suffix."""

    def __init__(self) -> None:
        super().__init__()
        self.suffix = ""
        self.difference = 0

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        data = super().get(key, start, end).read()
        if self.suffix and key.endswith(self.suffix):
            data = data + bytes(self.difference) if self.difference > 0 else data[: self.difference]
        return io.BytesIO(data)


@pytest.mark.parametrize("difference", [5, -5])
@pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest"])
@pytest.mark.parametrize("is_cached", [True, False])
def test_objects_of_wrong_length_are_errors_until_they_are_right_again(
    suffix: str, difference: int, is_cached: bool, segment: StoredSegment
) -> None:
    store = WrongLengthStore()
    cache = make_cache(store) if is_cached else None
    manager = ObjectStorageManager(store, manager_settings(chunk_size=10_000), cache)
    manager.copy_log_segment_data(segment.metadata, segment.files)
    store.suffix, store.difference = suffix, difference
    try:
        require_whole(manager, segment)
    except RemoteStorageError:
        assert difference < 0 or suffix == ".rsm-manifest", "surplus bytes are not read"
    store.suffix = ""
    require_whole(manager, segment)
    manager.close()


@pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest"])
def test_a_copy_is_not_finished_while_the_store_keeps_fewer_bytes(
    suffix: str, segment: StoredSegment
) -> None:
    class ShorteningStore(MemoryStore):
        is_wrong = True

        def put(self, key: str, content: Content, size: int | None = None) -> None:
            super().put(key, content, size)
            if self.is_wrong and key.endswith(suffix):
                self.objects[key] = self.objects[key][:-1]

    store = ShorteningStore()
    manager = ObjectStorageManager(store, manager_settings(chunk_size=10_000))
    with pytest.raises(RemoteStorageError):
        manager.copy_log_segment_data(segment.metadata, segment.files)
    assert store.objects == {}
    store.is_wrong = False
    manager.copy_log_segment_data(segment.metadata, segment.files)
    require_whole(manager, segment)
    manager.close()


# -- S3 with faults, and with versions


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> Iterator[str]:
    with s3.bucket() as name:
        yield name


def configs(s3: S3Server, bucket: str, endpoint: str | None = None) -> dict[str, str]:
    values = {f"storage.{key}": text for key, text in s3.config(bucket, endpoint=endpoint).items()}
    return {"storage.backend.class": "s3", "storage.s3.read.timeout": "2000", **values}


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3.endpoint, seed=3) as running:
        yield running


@pytest.mark.parametrize("fault", TRANSIENT)
def test_a_segment_is_copied_and_read_whole_while_every_third_request_fails(
    fault: str, s3: S3Server, bucket: str, proxy: FaultProxy, segment: StoredSegment
) -> None:
    manager = storage_manager_from_config({**configs(s3, bucket, proxy.endpoint), "chunk.size": "40000"})
    proxy.inject(TRANSIENT[fault], probability=0.33)
    manager.copy_log_segment_data(segment.metadata, segment.files)
    require_whole(manager, segment)
    proxy.clear()
    manager.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_copy_in_a_versioned_bucket_is_read_in_its_newest_version(
    kind: str, s3: S3Server, bucket: str, tmp_path: Path, segment: StoredSegment
) -> None:
    """An outage repeats a copy with the same keys; a repair writes them again, too."""
    client = s3.client()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    transform = configs_of(kind, *write_key_pair(key_pair(), tmp_path))
    manager = storage_manager_from_config({**configs(s3, bucket), **transform, "chunk.size": "40000"})
    random = Random(1)
    custom = manager.copy_log_segment_data(segment.metadata, segment.files)
    metadata = segment.with_custom_metadata(custom)
    require_whole(manager, segment, custom)
    for key in [info.key for info in manager.store.list("")]:
        manager.store.put(key, random.randbytes(500))  # a version that is damaged
    manager.discard_cached(metadata, 0, LOG_BYTES)
    with pytest.raises(RemoteStorageError):
        require_whole(manager, segment, custom)
    manager.replace_log_segment_data(metadata, segment.files)
    require_whole(manager, segment, custom)
    manager.delete_log_segment_data(metadata)
    with pytest.raises(RemoteResourceNotFound):
        manager.fetch_log_segment(metadata, 0)
    manager.close()
    _delete_versions(client, bucket)


def _delete_versions(client: object, bucket: str) -> None:
    versions = client.list_object_versions(Bucket=bucket)  # type: ignore[attr-defined]
    for entry in [*versions.get("Versions", []), *versions.get("DeleteMarkers", [])]:
        client.delete_object(Bucket=bucket, Key=entry["Key"], VersionId=entry["VersionId"])  # type: ignore[attr-defined]
