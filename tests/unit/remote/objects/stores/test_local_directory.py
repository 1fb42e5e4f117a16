"""Properties of the directory store alone: path safety, and crashes."""

from __future__ import annotations

import io
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.waiting import TIMEOUT_S
from tidelog.base.config_definition import ConfigError
from tidelog.remote.objects.stores.backends import object_store
from tidelog.remote.objects.stores.local_directory import LocalDirectoryStore
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound, RemoteStorageError


def files_of(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.mark.parametrize(
    "key", ["..", "../a", "a/../../b", "/etc/passwd", "a//b", "a/", "./a", "a/./b", "a/.."]
)
@pytest.mark.parametrize("backend", ["filesystem", "fsspec"])
def test_keys_outside_the_root_or_of_a_directory_are_refused(tmp_path: Path, key: str, backend: str) -> None:
    root = tmp_path / "deep" / "root"
    root.mkdir(parents=True)
    (tmp_path / "deep" / "a").write_text("outside")
    store = object_store(
        backend, {"root": str(root)} if backend == "filesystem" else {"fsspec.url": f"file://{root}"}
    )
    for call in (store.get, store.size, lambda key: store.put(key, b"x", 1), lambda key: store.delete([key])):
        with pytest.raises(RemoteStorageError, match="not a path below the root") as raised:
            call(key)
        assert not isinstance(raised.value, RemoteResourceNotFound)
    assert (tmp_path / "deep" / "a").read_text() == "outside"
    with pytest.raises(RemoteStorageError):
        list(store.list("../"))


def test_object_paths_equal_aivens_file_system_storage(tmp_path: Path) -> None:
    store = LocalDirectoryStore(str(tmp_path))
    store.put("prefix/topic-id/0/00.log", b"content", 7)
    assert (tmp_path / "prefix/topic-id/0/00.log").read_bytes() == b"content"
    (tmp_path / "prefix/topic-id/0/00.indexes").write_bytes(b"of another broker")
    assert store.get("prefix/topic-id/0/00.indexes").read() == b"of another broker"


def test_deletion_removes_empty_parent_directories_only(tmp_path: Path) -> None:
    store = LocalDirectoryStore(str(tmp_path))
    for key in ("t/0/a", "t/0/b", "t/1/c"):
        store.put(key, b"x")
    store.delete(["t/0/a", "t/0/b"])
    assert files_of(tmp_path) == [".uploads", "t", "t/1", "t/1/c"]
    store.delete(["t/1/c"])
    assert files_of(tmp_path) == [".uploads"]


def test_put_recreates_a_directory_deleted_concurrently(tmp_path: Path) -> None:
    """Several stores put into and delete from one directory, like several processes."""

    def put_and_delete(number: int) -> None:
        store = LocalDirectoryStore(str(tmp_path))
        for turn in range(150):
            store.put(f"t/p/{number}", bytes([turn]))
            assert store.get(f"t/p/{number}").read() == bytes([turn])
            store.delete([f"t/p/{number}"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put_and_delete, range(4)))
    assert files_of(tmp_path) == [".uploads"]


def test_an_open_stream_continues_after_replacement_or_deletion(tmp_path: Path) -> None:
    store = LocalDirectoryStore(str(tmp_path))
    store.put("a", b"first" * 1000)
    stream = store.get("a")
    assert stream.read(5) == b"first"
    store.put("a", b"other")
    store.delete(["a"])
    assert stream.read() == b"first" * 999
    stream.close()


def test_an_object_truncated_by_another_program_is_an_error(tmp_path: Path) -> None:
    store = LocalDirectoryStore(str(tmp_path))
    store.put("a", bytes(5000))
    stream = store.get("a", 0, 4999)
    os.truncate(tmp_path / "a", 100)
    with pytest.raises(RemoteStorageError, match="too early"):
        stream.read(5000)
    stream.close()


def test_a_put_in_progress_is_not_visible(tmp_path: Path) -> None:
    store = LocalDirectoryStore(str(tmp_path))
    reached, may_continue = threading.Event(), threading.Event()

    class WaitingStream(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            piece = super().read(size)
            if not piece:
                reached.set()
                may_continue.wait(TIMEOUT_S)
            return piece

    putting = threading.Thread(target=store.put, args=("a/b", WaitingStream(b"content"), 7))
    putting.start()
    assert reached.wait(TIMEOUT_S)
    assert list(store.list("")) == []
    with pytest.raises(RemoteResourceNotFound):
        store.get("a/b")
    may_continue.set()
    putting.join(TIMEOUT_S)
    assert [info.key for info in store.list("")] == ["a/b"]


def test_temporary_files_of_a_crash_are_removed_after_a_day(tmp_path: Path) -> None:
    LocalDirectoryStore(str(tmp_path))
    old, young = tmp_path / ".uploads" / "old", tmp_path / ".uploads" / "young"
    old.write_text("x")
    young.write_text("x")
    day_ago = time.time() - 25 * 3600
    os.utime(old, (day_ago, day_ago))
    store = LocalDirectoryStore(str(tmp_path))
    assert files_of(tmp_path) == [".uploads", ".uploads/young"]
    with pytest.raises(RemoteStorageError, match=r"directory \.uploads is reserved for uploads"):
        store.get(".uploads/young")


def test_put_without_overwriting_keeps_an_existing_object(tmp_path: Path) -> None:
    store = object_store("filesystem", {"root": str(tmp_path), "overwrite.enabled": "false"})
    store.put("a", b"first")
    with pytest.raises(RemoteStorageError, match="FileExistsError"):
        store.put("a", b"second")
    assert store.get("a").read() == b"first"
    assert files_of(tmp_path) == [".uploads", "a"]


def test_file_and_directories_are_synced_before_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalDirectoryStore(str(tmp_path))
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        steps.append(
            "sync " + os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path).split("/")[0]
        )
        real_fsync(descriptor)

    def replace(old: str, new: str) -> None:
        steps.append("rename")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    store.put("t/p", b"x")
    assert steps == ["sync .uploads", "rename", "sync t", "sync ."]
    steps.clear()
    store.delete(["t/p"])
    assert steps == ["sync t"]


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_root_that_is_not_a_directory_is_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError) as raised:
        object_store("filesystem", {"root": str(tmp_path / kind)})
    assert str(raised.value) == (
        f"Invalid configuration value: root={tmp_path / kind}; allowed is an existing, writable directory"
    )


def test_a_directory_deleted_during_its_creation_is_recreated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mkdir reports that the directory exists; before makedirs checks it, a deletion removes it."""
    store = LocalDirectoryStore(str(tmp_path))
    real_makedirs = os.makedirs
    errors = [FileExistsError("t"), FileNotFoundError("t")]

    def makedirs(path: str, exist_ok: bool) -> None:
        if errors:
            raise errors.pop()
        real_makedirs(path, exist_ok=exist_ok)

    monkeypatch.setattr(os, "makedirs", makedirs)
    store.put("t/a", b"x")
    assert store.get("t/a").read() == b"x"


def test_a_file_in_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    store = LocalDirectoryStore(str(tmp_path))
    store.put("t", b"x")
    for key in ("t/a", "t/a/b"):
        with pytest.raises(RemoteStorageError, match=f"cannot put '{key}'"):
            store.put(key, b"x")
    assert files_of(tmp_path) == [".uploads", "t"]
