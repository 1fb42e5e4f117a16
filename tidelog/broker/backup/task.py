"""The periodic backup of the active controller (shell).

The first backup of a new active controller follows when the newest one in the bucket is older than the
interval: elections do not delay backups. A failure is logged and repeated after a tenth of the interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.backup.archive import ClusterBackup
from tidelog.broker.backup.catalog import BackupCatalog, BackupEntry
from tidelog.broker.backup.collection import metadata_snapshot
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import LeaderEpoch
from tidelog.storage.disk.errors import CorruptFile

logger = logging.getLogger(__name__)

_RETRY_SHARE: Final = 10
_RETRY_MIN_S: Final = 1.0

Collect = Callable[[MetadataImage, bytes, int, ClusterBackup | None], Awaitable[ClusterBackup]]


class RestoreInProgress(Exception):
    """No backup is written until the restore of the cluster is complete; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPorts:
    """The ports of backups: the current metadata, offsets of brokers, and the store.

    `collect` returns the backup of an image with its snapshot, the time and the previous backup;
    `open_catalog` blocks.
    """

    clock: Clock
    image: Callable[[], MetadataImage]
    collect: Collect
    open_catalog: Callable[[], BackupCatalog]


class PeriodicBackup:
    """Writes a backup every `interval_ms`, and deletes those older than `retention_ms` (-1: none)."""

    def __init__(self, ports: BackupPorts, *, interval_ms: int, retention_ms: int) -> None:
        self._ports = ports
        self._interval_ms = interval_ms
        self._retention_ms = retention_ms
        self._catalog: BackupCatalog | None = None
        self._task: asyncio.Task[None] | None = None

    def on_activation(self, epoch: LeaderEpoch) -> None:
        """Begin, because this node has become the active controller."""
        self.stop()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="cluster-backup")

    def stop(self) -> None:
        """End, because this node has resigned or stops."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                await asyncio.sleep(await self._pause_s())
                await self._back_up()
            except Exception as error:
                pause_s = max(_RETRY_MIN_S, self._interval_ms / 1000 / _RETRY_SHARE)
                logger.warning("Cannot write a backup of the cluster: %s; retrying in %g s", error, pause_s)
                await asyncio.sleep(pause_s)

    async def _pause_s(self) -> float:
        entries = await asyncio.to_thread(self._entries)
        if not entries:
            return 0.0
        age_ms = self._ports.clock.wall_ms() - entries[-1].created_ms
        return max(0, self._interval_ms - max(age_ms, 0)) / 1000

    async def _back_up(self) -> None:
        pending = await asyncio.to_thread(self._pending_restore)
        if pending is not None:
            raise RestoreInProgress(
                f"the cluster is being restored from backup {pending.id}; complete this with tidelog cluster "
                "restore --execute, or end it with tidelog backup resume"
            )
        ports, image, now_ms = self._ports, self._ports.image(), self._ports.clock.wall_ms()
        metadata = await asyncio.to_thread(lambda: metadata_snapshot(image, now_ms))
        previous = await asyncio.to_thread(self._previous)
        backup = await ports.collect(image, metadata, now_ms, previous)
        entry = await asyncio.to_thread(lambda: self._open().write(backup))
        expired = await asyncio.to_thread(lambda: self._expire(backup))
        logger.info(
            "Wrote backup %s of the cluster, %d bytes; deleted %d expired backups",
            entry.id,
            entry.size_bytes,
            len(expired),
        )

    def _entries(self) -> list[BackupEntry]:
        return self._open().entries(self._ports.image().cluster_id)

    def _pending_restore(self) -> BackupEntry | None:
        return self._open().pending_restore(self._ports.image().cluster_id)

    def _previous(self) -> ClusterBackup | None:
        """Return the newest backup that can be read; None if there is none."""
        for entry in reversed(self._entries()):
            try:
                return self._open().read(entry)
            except CorruptFile as error:
                logger.warning("Cannot read an earlier backup of the cluster: %s", error)
        return None

    def _expire(self, backup: ClusterBackup) -> list[BackupEntry]:
        if self._retention_ms < 0:
            return []
        return self._open().delete_expired(backup.cluster_id, backup.created_ms - self._retention_ms)

    def _open(self) -> BackupCatalog:
        if self._catalog is None:
            self._catalog = self._ports.open_catalog()
        return self._catalog
