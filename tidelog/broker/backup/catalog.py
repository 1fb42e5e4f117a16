"""The backups in an object store.

    <key.prefix>tidelog-backups/<cluster id>/<time>.zip      such as 20261127T195301.042Z
    <key.prefix>tidelog-backups/<cluster id>/restoring       the key of the backup from which it is restored

While a cluster is being restored, it writes no backups: they would be incomplete, and newer than the one that
is needed if the restore is interrupted.

I/O: blocks. Errors: RemoteStorageError; CorruptFile for a damaged backup; BackupNotFound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tidelog.broker.backup.archive import ENTRY_BYTES_MAX, ClusterBackup, decode_backup, encode_backup
from tidelog.remote.objects.layout.object_keys import BACKUPS_FOLDER
from tidelog.remote.objects.stores.port import KEY_BYTES_MAX, ObjectStore
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound
from tidelog.storage.disk.errors import CorruptFile

LATEST: Final = "latest"
_NAME: Final = re.compile(r"(?P<cluster>[A-Za-z0-9_-]+)/(?P<id>\d{8}T\d{6}\.\d{3}Z)\.zip")
_MARKER: Final = "restoring"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BackupNotFound(Exception):
    """There is no backup with this id; the text is one line."""


class BackupEntry(NamedTuple):
    """A backup in the store."""

    cluster_id: str
    id: str
    created_ms: int
    size_bytes: int
    key: str


class BackupCatalog:
    """The backups of all clusters below one prefix of a store."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._folder = f"{prefix}{BACKUPS_FOLDER}/"

    def entries(self, cluster_id: str | None = None) -> list[BackupEntry]:
        """Return the backups of one cluster, or of all clusters, the oldest first."""
        return sorted(
            (entry for entry in self._all() if cluster_id is None or entry.cluster_id == cluster_id),
            key=lambda entry: (entry.created_ms, entry.cluster_id),
        )

    def find(self, backup_id: str, cluster_id: str | None = None) -> BackupEntry:
        """Return one backup; the id LATEST is the newest one."""
        entries = self.entries(cluster_id)
        matching = entries[-1:] if backup_id == LATEST else [each for each in entries if each.id == backup_id]
        if not matching:
            ids = ", ".join(entry.id for entry in entries[-3:]) or "none"
            raise BackupNotFound(f"the bucket has no backup {backup_id}; its newest backups: {ids}")
        clusters = {entry.cluster_id for entry in entries}
        if cluster_id is None and len(clusters) > 1:
            names = ", ".join(sorted(clusters))
            raise BackupNotFound(f"the bucket has backups of several clusters; name one of {names}")
        return matching[0]

    def resolve(self, backup_id: str, cluster_id: str | None = None) -> BackupEntry:
        """Return one backup; LATEST is the one from which the cluster is being restored, or the newest."""
        if backup_id == LATEST:
            clusters = {cluster_id} if cluster_id is not None else set(self._restoring())
            entries = [self.pending_restore(each) for each in clusters]
            pending = {entry.key: entry for entry in entries if entry is not None}
            if len(pending) == 1:
                return pending.popitem()[1]
        return self.find(backup_id, cluster_id)

    def begin_restore(self, cluster_id: str, entry: BackupEntry) -> None:
        """Suspend the backups of a cluster until its restore from `entry` is complete."""
        data = entry.key.encode()
        self._store.put(self._marker(cluster_id), data, len(data))

    def pending_restore(self, cluster_id: str) -> BackupEntry | None:
        """Return the backup from which a cluster is being restored; None if it is not."""
        try:
            with closing(self._store.get(self._marker(cluster_id))) as stream:
                key = stream.read(KEY_BYTES_MAX).decode(errors="replace")
        except RemoteResourceNotFound:
            return None
        for entry in self._all():
            if entry.key == key:
                return entry
        raise BackupNotFound(f"cluster {cluster_id} is being restored from {key}, which does not exist")

    def end_restore(self, cluster_id: str) -> None:
        """Resume the backups of a cluster."""
        self._store.delete([self._marker(cluster_id)])

    def read(self, entry: BackupEntry) -> ClusterBackup:
        """Return a backup; its checksums are correct."""
        with closing(self._store.get(entry.key)) as stream:
            data = stream.read(ENTRY_BYTES_MAX + 1)
        if len(data) > ENTRY_BYTES_MAX:
            raise CorruptFile(entry.key, f"it has more than {ENTRY_BYTES_MAX} bytes")
        return decode_backup(data, entry.key)

    def write(self, backup: ClusterBackup) -> BackupEntry:
        """Store a backup."""
        backup_id = id_text(backup.created_ms)
        key = f"{self._folder}{backup.cluster_id}/{backup_id}.zip"
        data = encode_backup(backup)
        self._store.put(key, data, len(data))
        return BackupEntry(backup.cluster_id, backup_id, backup.created_ms, len(data), key)

    def delete(self, entry: BackupEntry) -> None:
        """Delete a backup."""
        self._store.delete([entry.key])

    def delete_expired(self, cluster_id: str, before_ms: int) -> list[BackupEntry]:
        """Delete the backups of a cluster from before `before_ms`, but never the newest; return them."""
        expired = [entry for entry in self.entries(cluster_id)[:-1] if entry.created_ms < before_ms]
        self._store.delete([entry.key for entry in expired])
        return expired

    def _marker(self, cluster_id: str) -> str:
        return f"{self._folder}{cluster_id}/{_MARKER}"

    def _restoring(self) -> Iterator[str]:
        for info in self._store.list(self._folder):
            cluster_id, _, name = info.key.removeprefix(self._folder).partition("/")
            if name == _MARKER:
                yield cluster_id

    def _all(self) -> Iterator[BackupEntry]:
        for info in self._store.list(self._folder):
            match = _NAME.fullmatch(info.key.removeprefix(self._folder))
            if match is not None:
                created_ms = _time_ms(match["id"])
                if created_ms is not None:
                    yield BackupEntry(match["cluster"], match["id"], created_ms, info.size_bytes, info.key)


def id_text(created_ms: int) -> str:
    """Return the id of a backup, which is its time."""
    time = _EPOCH + timedelta(milliseconds=created_ms)
    return f"{time:%Y%m%dT%H%M%S}.{created_ms % 1000:03d}Z"


def _time_ms(text: str) -> int | None:
    try:
        time = datetime.strptime(text[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int((time - _EPOCH).total_seconds()) * 1000 + int(text[16:19])
