"""Segments in a real S3 server, configured by the keys of Aiven's plugin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3.server import S3Server, s3_server
from tests.support.tier.sealed_segments import make_segment
from tests.support.tier.segment_configs import KINDS, compressible, configs_of, key_pair, write_key_pair
from tidelog.remote.objects.config import storage_manager_from_config
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def storage(s3: S3Server) -> Iterator[dict[str, str]]:
    """Return the configs of a store in an empty bucket."""
    with s3.bucket() as bucket:
        yield {
            "storage.backend.class": "io.aiven.kafka.tieredstorage.storage.s3.S3Storage",
            "storage.s3.bucket.name": bucket,
            "storage.s3.endpoint.url": s3.endpoint,
            "storage.s3.region": "us-east-1",
            "storage.s3.path.style.access.enabled": "true",
            "storage.aws.access.key.id": s3.access_key,
            "storage.aws.secret.access.key": s3.secret_key,
        }


@pytest.mark.parametrize("kind", KINDS)
def test_a_segment_round_trips_in_s3(
    kind: str, storage: dict[str, str], s3: S3Server, tmp_path: Path
) -> None:
    configs = configs_of(kind, *write_key_pair(key_pair(), tmp_path))
    manager = storage_manager_from_config({**storage, **configs, "chunk.size": "100000"})
    segment = make_segment(tmp_path / "segment", compressible(1_234_567), with_transactions=True)
    custom_metadata = manager.copy_log_segment_data(segment.metadata, segment.files)
    metadata = segment.with_custom_metadata(custom_metadata)
    stream = manager.fetch_log_segment(metadata, 0)
    assert b"".join(iter(lambda: stream.read(77_777), b"")) == segment.log
    assert manager.fetch_log_segment(metadata, 99_999, 100_000).read() == segment.log[99_999:100_001]
    for index_type, content in segment.indexes.items():
        assert manager.fetch_index(metadata, index_type).read() == content
    manager.delete_log_segment_data(metadata)
    with pytest.raises(RemoteResourceNotFound):
        manager.fetch_log_segment(metadata, 0)
    manager.close()
    assert s3.client().list_objects_v2(Bucket=storage["storage.s3.bucket.name"]).get("KeyCount") == 0
