"""Chunks on disk: removed at start, fetched again when lost, and optional on a full disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.tier.object_stores import MemoryStore
from tests.support.tier.segment_configs import compressible
from tests.unit.remote.objects.chunks.cached_segments import make_cache, put_segment
from tidelog.base.config_definition import ConfigError
from tidelog.remote.objects.chunks.storage import ChunkKey, DiskStorage
from tidelog.remote.objects.layout.pieces import Pieces

LOG = compressible(10_000)


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def test_cached_chunks_are_files_and_evicted_ones_are_removed(tmp_path: Path) -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, size=3000, storage=DiskStorage(tmp_path))
    for number in range(5):
        assert cache.slice(segment, number, 10, 30) == LOG[number * 1000 + 10 : number * 1000 + 30]
    assert sum(path.stat().st_size for path in files(tmp_path)) == cache.cached_bytes == 3000
    assert cache.slice(segment, 4, 0, 1000) == LOG[4000:5000]
    assert len(store.gets()) == 5
    cache.close()
    assert files(tmp_path) == []


def test_only_cache_files_are_removed_at_start(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    storage.store(ChunkKey("a/b.log", 1), Pieces([b"chunk"]))
    (tmp_path / "other-file").write_text("own")
    assert len(files(tmp_path)) == 2
    DiskStorage(tmp_path)
    assert files(tmp_path) == [tmp_path / "other-file"]


def test_a_missing_or_truncated_file_is_fetched_again(tmp_path: Path) -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, storage=DiskStorage(tmp_path))
    for damage in (os.unlink, lambda path: os.truncate(path, 10)):
        cache.slice(segment, 0, 0, 10)
        (file,) = files(tmp_path)
        damage(file)
        assert cache.slice(segment, 0, 500, 600) == LOG[500:600]
        assert cache.cached_bytes == 1000
    assert len(store.gets()) == 3
    cache.close()


def test_a_full_disk_fails_no_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, storage=DiskStorage(tmp_path), read_ahead=3000)

    def no_space(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("tidelog.remote.objects.chunks.storage.os.replace", no_space)
        assert cache.slice(segment, 0, 0, 1000) == LOG[:1000]
        assert cache.slice(segment, 0, 0, 1000) == LOG[:1000]
    assert files(tmp_path) == []
    assert cache.cached_bytes == 0
    cache.slice(segment, 0, 0, 1)
    assert cache.cached_bytes == 1000
    cache.close()


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"fetch.chunk.cache.path=.*allowed is an existing, writable directory"
    ):
        DiskStorage(tmp_path / "none")
