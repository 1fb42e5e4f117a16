"""Buckets and prefixes of other clusters: their configs, and the keys that are read from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.remote.objects.config import storage_manager_from_config
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.mounts import mount_values
from tidelog.remote.objects.stores.port import ObjectInfo
from tidelog.remote.ports.storage_manager import RemoteStorageError

OWN = {"storage.backend.class": "filesystem", "storage.root": "/own"}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ObjectStorageManager]:
    """Return a manager with a mount that is another directory."""
    for name in ("own", "west"):
        (tmp_path / name / "w").mkdir(parents=True)
    values = {
        "storage.backend.class": "filesystem",
        "storage.root": str(tmp_path / "own"),
        "mounts.west.storage.root": str(tmp_path / "west"),
        "mounts.west.key.prefix": "w/",
    }
    (tmp_path / "west" / "w" / "a").write_bytes(b"west")
    (tmp_path / "own" / "a").write_bytes(b"own")
    created = storage_manager_from_config(values)
    yield created
    created.close()


def test_keys_of_a_mount_are_read_from_its_store_below_its_prefix(manager: ObjectStorageManager) -> None:
    store = manager.store
    assert store.get("mount://west/a").read() == b"west"
    assert store.get("a").read() == b"own"
    assert store.size("mount://west/a") == 4
    assert list(store.list("mount://west/")) == [ObjectInfo("mount://west/a", 4)]
    assert ObjectInfo("a", 3) in list(store.list(""))


def test_a_mount_is_never_written_and_nothing_in_it_is_deleted(
    manager: ObjectStorageManager, tmp_path: Path
) -> None:
    with pytest.raises(RemoteStorageError, match="mounts are only read"):
        manager.store.put("mount://west/b", b"x", 1)
    with pytest.raises(RemoteStorageError, match="mounts are only read"):
        manager.store.delete(["a", "mount://west/a"])
    assert (tmp_path / "west" / "w" / "a").exists()
    assert (tmp_path / "own" / "a").exists()


def test_a_mount_that_is_not_configured_is_named(manager: ObjectStorageManager) -> None:
    with pytest.raises(RemoteStorageError, match="there is no mount 'east'"):
        manager.store.get("mount://east/a")


def test_a_mount_with_a_class_has_only_its_own_settings() -> None:
    values = {**OWN, "mounts.b.storage.backend.class": "s3", "mounts.b.storage.s3.bucket.name": "x"}
    assert mount_values(values) == {"b": {"storage.backend.class": "s3", "storage.s3.bucket.name": "x"}}
    assert mount_values({**OWN, "mounts.c.key.prefix": "c/"}) == {"c": {**OWN, "key.prefix": "c/"}}


@pytest.mark.parametrize("key", ["mounts.a-b.key.prefix", "mounts.a.chunk.size", "mounts.a"])
def test_a_wrong_setting_of_a_mount_is_a_config_error(key: str) -> None:
    with pytest.raises(ConfigError, match="mount"):
        mount_values({**OWN, key: "x"})
