"""A store with mounts: buckets or prefixes of other clusters, which are only read.

    mount://west/tides-EBZ.../0/00...log    the object <key.prefix of west>tides-EBZ.../0/00...log of west
    every other key                         the store of this cluster

Writes and deletions of keys of a mount fail here, before any request.

Errors: RemoteStorageError, also for a mount that is not configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidelog.remote.objects.layout.object_keys import MOUNT_SCHEME, mount_prefix
from tidelog.remote.objects.stores.port import Content, ObjectInfo, ObjectStore
from tidelog.remote.ports.storage_manager import ReadableStream, RemoteStorageError


class Mount(NamedTuple):
    """The store of a mount, and its key.prefix."""

    store: ObjectStore
    prefix: str


class MountedStores:
    """The store of this cluster, and its mounts by name."""

    def __init__(self, store: ObjectStore, mounts: Mapping[str, Mount]) -> None:
        self._store = store
        self._mounts = mounts

    def put(self, key: str, content: Content, size: int | None = None) -> bool | None:
        """Put an object, as specified by ObjectStore."""
        self._require_own(key)
        return self._store.put(key, content, size)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """Return a range of an object, as specified by ObjectStore."""
        store, key = self._located(key)
        return store.get(key, start, end)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, as specified by ObjectStore."""
        own_keys = list(keys)
        for key in own_keys:
            self._require_own(key)
        self._store.delete(own_keys)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """List objects, as specified by ObjectStore."""
        if not prefix.startswith(MOUNT_SCHEME):
            yield from self._store.list(prefix, start_after)
            return
        name, mount, path = self._mount_of(prefix)
        after = start_after.removeprefix(mount_prefix(name))
        for info in mount.store.list(mount.prefix + path, mount.prefix + after if after else ""):
            yield info._replace(key=mount_prefix(name) + info.key.removeprefix(mount.prefix))

    def size(self, key: str) -> int:
        """Return the size of an object, as specified by ObjectStore."""
        store, key = self._located(key)
        return store.size(key)

    def close(self) -> None:
        """Release all stores."""
        for mount in self._mounts.values():
            mount.store.close()
        self._store.close()

    def _located(self, key: str) -> tuple[ObjectStore, str]:
        if not key.startswith(MOUNT_SCHEME):
            return self._store, key
        _, mount, path = self._mount_of(key)
        return mount.store, mount.prefix + path

    def _mount_of(self, key: str) -> tuple[str, Mount, str]:
        name, _, path = key.removeprefix(MOUNT_SCHEME).partition("/")
        mount = self._mounts.get(name)
        if mount is None:
            raise RemoteStorageError(
                f"there is no mount {name!r}: set rsm.config.mounts.{name}.storage.backend.class and the "
                "settings of its store"
            )
        return name, mount, path

    def _require_own(self, key: str) -> None:
        if key.startswith(MOUNT_SCHEME):
            raise RemoteStorageError(f"{key}: mounts are only read")
