"""The store of a cluster with mounts behaves like its own store; mounts are only read."""

from __future__ import annotations

import pytest

from tests.support.tier.object_stores import MemoryStore
from tidelog.remote.objects.stores.mounted import Mount, MountedStores
from tidelog.remote.ports.storage_manager import RemoteStorageError


def test_a_confirmed_checksum_is_passed_on_by_a_store_with_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    own = MemoryStore()
    monkeypatch.setattr(own, "put", lambda key, content, size: True)
    assert MountedStores(own, {}).put("key", b"content") is True


def test_objects_of_a_mount_are_neither_written_nor_deleted() -> None:
    own, source = MemoryStore(), MemoryStore()
    own.put("own", b"1")
    source.put("w/key", b"1")
    store = MountedStores(own, {"west": Mount(source, "w/")})
    for key in ("mount://west/key", "mount://unknown/key"):
        with pytest.raises(RemoteStorageError, match="mounts are only read"):
            store.put(key, b"2")
        with pytest.raises(RemoteStorageError, match="mounts are only read"):
            store.delete(["own", key])
    assert store.size("mount://west/key") == store.size("own") == 1
