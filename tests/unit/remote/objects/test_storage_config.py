"""The storage manager's configuration: Aiven's keys, one-line errors, unknown keys."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.tier.sealed_segments import make_segment
from tests.support.tier.segment_configs import compressible, encryption_configs, key_pair, write_key_pair
from tidelog.base.config_definition import ConfigError
from tidelog.remote.objects.config import storage_manager_from_config, unknown_keys
from tidelog.remote.objects.layout.custom_metadata import CustomField
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.ports.storage_manager import IndexType, RemoteResourceNotFound, RemoteStorageError

AIVEN = "io.aiven.kafka.tieredstorage."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "bucket").mkdir()
    return tmp_path / "bucket"


def base(root: Path) -> dict[str, str]:
    return {"storage.backend.class": "filesystem", "storage.root": str(root)}


def new_manager(values: dict[str, str]) -> ObjectStorageManager:
    manager = storage_manager_from_config(values)
    manager.close()
    return manager


def test_a_directory_is_the_only_required_setting(root: Path) -> None:
    manager = new_manager(base(root))
    assert manager.settings.chunk_size == 4 * 1024 * 1024
    assert manager.settings.key_ring is None and not manager.settings.compression
    assert manager.read_ahead_bytes == 32 * 1024 * 1024


@pytest.mark.parametrize(
    "name",
    [
        "memory",
        "disk",
        f"{AIVEN}fetch.cache.MemoryChunkCache",
        f"{AIVEN}fetch.cache.DiskChunkCache",
        f"{AIVEN}chunkmanager.cache.InMemoryChunkCache",
        f"{AIVEN}chunkmanager.cache.DiskBasedChunkCache",
        "none",
    ],
)
def test_a_configuration_of_the_aiven_plugin_is_accepted(name: str, root: Path, tmp_path: Path) -> None:
    values = {
        "storage.backend.class": f"{AIVEN}storage.filesystem.FileSystemStorage",
        "storage.root": str(root),
        "chunk.size": "5000",
        "key.prefix": "tier/",
        "fetch.chunk.cache.class": name,
        "fetch.chunk.cache.size": "-1",
        "fetch.chunk.cache.retention.ms": "-1",
        "fetch.chunk.cache.path": str(tmp_path),
        "fetch.chunk.cache.prefetch.max.size": "8000",
        "fetch.manifest.cache.size": "10",
        "fetch.indexes.cache.size": "1024",
        "custom.metadata.fields.include": "REMOTE_SIZE,OBJECT_KEY",
        "upload.rate.limit.bytes.per.second": "104857600",
    }
    manager = storage_manager_from_config(values)
    assert manager.settings.custom_fields == (CustomField.REMOTE_SIZE, CustomField.OBJECT_KEY)
    segment = make_segment(tmp_path / "segment", compressible(12_345))
    custom_metadata = manager.copy_log_segment_data(segment.metadata, segment.files)
    metadata = segment.with_custom_metadata(custom_metadata)
    assert manager.fetch_log_segment(metadata, 0).read() == segment.log
    assert (manager.read_ahead_bytes == 8000) is (name != "none")
    manager.close()


def test_the_former_key_of_the_manifest_cache_is_accepted(root: Path) -> None:
    manager = new_manager(
        {**base(root), "segment.manifest.cache.size": "7", "segment.manifest.cache.retention.ms": "-1"}
    )
    assert manager.settings.manifest_cache.size == 7
    assert manager.settings.manifest_cache.retention_ms is None


def test_unknown_keys_are_logged_and_ignored(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    values = {**base(root), "chunk.sise": "5", "encryption.key.pairs.gone.public.key.file": "x"}
    with caplog.at_level(logging.WARNING):
        new_manager(values)
    assert unknown_keys(values) == ("chunk.sise", "encryption.key.pairs.gone.public.key.file")
    assert "chunk.sise" in caplog.text


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"storage.backend.class": None}, "storage.backend.class; a value is required"),
        ({"storage.backend.class": "tape"}, "storage.backend.class=tape; allowed is one of: filesystem"),
        ({"chunk.size": "0"}, "chunk.size=0; allowed is a 32-bit number from 1 to"),
        ({"chunk.size": "4MiB"}, "chunk.size=4MiB; allowed is a 32-bit number"),
        ({"segment.format": "iceberg"}, "segment.format=iceberg; allowed is one of: kafka"),
        ({"compression.enabled": "yes"}, "compression.enabled=yes; allowed is true or false"),
        (
            {"compression.heuristic.enabled": "true"},
            "compression.heuristic.enabled=true; compression.enabled",
        ),
        ({"custom.metadata.fields.include": "SIZE"}, "=SIZE; allowed is a list of: REMOTE_SIZE"),
        ({"fetch.chunk.cache.class": "redis"}, "fetch.chunk.cache.class=redis; allowed is one of: memory"),
        ({"fetch.chunk.cache.class": "disk"}, "fetch.chunk.cache.path; a value is required"),
        (
            {"fetch.chunk.cache.size": "-2"},
            "fetch.chunk.cache.size=-2; allowed is a 64-bit number of at least -1",
        ),
        ({"encryption.enabled": "true"}, "encryption.key.pairs; allowed is a list of key pair ids"),
        (
            {"encryption.enabled": "true", "encryption.key.pairs": "a,b", "encryption.key.pair.id": "c"},
            "encryption.key.pair.id=c; allowed is one of encryption.key.pairs: a, b",
        ),
        (
            {"encryption.enabled": "true", "encryption.key.pairs": "a", "encryption.key.pair.id": "a"},
            "encryption.key.pairs.a.public.key.file; allowed is the path of a PEM file",
        ),
        (
            {"encryption.enabled": "true", "encryption.key.pairs": "a:b", "encryption.key.pair.id": "a:b"},
            "encryption.key.pairs=a:b; allowed is an id that is not blank and has no colon",
        ),
    ],
)
def test_an_invalid_value_is_reported_in_one_line(
    change: dict[str, str | None], line: str, root: Path
) -> None:
    values = {key: text for key, text in {**base(root), **change}.items() if text is not None}
    with pytest.raises(ConfigError) as raised:
        new_manager(values)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_key_files_must_hold_a_matching_rsa_key_pair(root: Path, tmp_path: Path) -> None:
    public, private = write_key_pair(key_pair(0), tmp_path)
    (tmp_path / "other").mkdir()
    other_public, _ = write_key_pair(key_pair(1), tmp_path / "other")
    invalid_file = tmp_path / "invalid_file.pem"
    invalid_file.write_text("not a key")
    ring = new_manager({**base(root), **encryption_configs(public, private)}).settings.key_ring
    assert ring is not None and ring.unwrap(ring.wrap(b"k" * 32)) == b"k" * 32
    for wrong, line in (
        ((other_public, private), "private.key.file=.*allowed is the RSA private key that belongs to"),
        ((invalid_file, private), "public.key.file=.*allowed is a PEM file of an RSA key"),
        ((public, public), "private.key.file=.*allowed is a PEM file of an RSA key"),
        ((tmp_path / "none", private), "public.key.file=.*cannot read the file"),
    ):
        with pytest.raises(ConfigError, match=line):
            new_manager({**base(root), **encryption_configs(*wrong)})


def test_a_masked_prefix_is_not_in_errors(root: Path, tmp_path: Path) -> None:
    manager = storage_manager_from_config(
        {**base(root), "key.prefix": "tenant-7/", "key.prefix.mask": "true"}
    )
    segment = make_segment(tmp_path / "segment", compressible(3000))
    for read in (
        manager.fetch_log_segment,
        lambda metadata, _: manager.fetch_index(metadata, IndexType.OFFSET),
    ):
        with pytest.raises(RemoteResourceNotFound) as missing:
            read(segment.metadata, 0)
        assert "<prefix>/topic1-" in str(missing.value) and "tenant-7" not in str(missing.value)
        assert missing.value.__suppress_context__
    manager.copy_log_segment_data(segment.metadata, segment.files)
    (log,) = root.glob("tenant-7/**/*.log")
    log.write_bytes(b"short")
    with pytest.raises(RemoteStorageError) as short:
        manager.fetch_log_segment(segment.metadata, 0).read()
    assert "<prefix>/topic1-" in str(short.value) and "tenant-7" not in str(short.value)
    manager.close()


def test_keys_rotate_without_rewriting_segments(root: Path, tmp_path: Path) -> None:
    pairs = {}
    for number, pair_id in enumerate(("old", "new")):
        (tmp_path / pair_id).mkdir()
        pairs[pair_id] = encryption_configs(*write_key_pair(key_pair(number), tmp_path / pair_id), pair_id)
    segment = make_segment(tmp_path / "segment", compressible(3000))
    before = storage_manager_from_config({**base(root), **pairs["old"]})
    before.copy_log_segment_data(segment.metadata, segment.files)
    before.close()
    rotated = {**base(root), **pairs["old"], **pairs["new"], "encryption.key.pairs": "new,old"}
    after = storage_manager_from_config(rotated)
    assert after.settings.key_ring is not None and after.settings.key_ring.active == "new"
    assert after.fetch_log_segment(segment.metadata, 0).read() == segment.log
    after.close()
