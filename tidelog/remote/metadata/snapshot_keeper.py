"""Snapshots of remote metadata, written and read in threads while the event loop continues (shell).

The files are used by one call at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.cache import RemoteLogMetadataCache
from tidelog.remote.metadata.snapshot_files import LoadedSnapshot, SnapshotFiles
from tidelog.remote.metadata.snapshot_plan import SnapshotPlanner
from tidelog.remote.ports.segment_metadata import RemotePartitionDeleteMetadata, TopicIdPartition
from tidelog.storage.disk.errors import StorageFailure

RunBlocking: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a function with arguments in a thread."""

_log = logging.getLogger(__name__)


class SnapshotKeeper:
    """Writes the planned snapshots. A disk failure only makes the next start longer."""

    def __init__(self, files: SnapshotFiles, planner: SnapshotPlanner, run_blocking: RunBlocking) -> None:
        self._files = files
        self._planner = planner
        self._run_blocking = run_blocking
        self._lock = asyncio.Lock()

    async def deletions(self) -> Sequence[RemotePartitionDeleteMetadata]:
        """Return the deletions of partitions that were in progress; empty if they cannot be read."""
        try:
            deletions: Sequence[RemotePartitionDeleteMetadata] = await self._run_blocking(
                self._files.deletions
            )
        except (OSError, StorageFailure) as error:
            _log.warning("Cannot read the deletions of partitions in progress: %s", error)
            return ()
        return deletions

    async def keep_deletions(self) -> None:
        """Write the deletions that are in progress now.

        The metadata of a partition without a replica is not read by any node: after a crash, this file is the
        only source.
        """
        async with self._lock:
            in_progress = self._planner.deletions()
            try:
                await self._run_blocking(self._files.write_deletions, in_progress)
            except (OSError, StorageFailure) as error:
                _log.warning("Cannot write the deletions of partitions in progress: %s", error)

    async def restore(
        self, partition: TopicIdPartition, number: int
    ) -> tuple[RemoteLogMetadataCache, Offset] | None:
        """Return the restored cache of `partition`, and the next offset in metadata partition `number`.

        None if there is no valid snapshot.
        """
        try:
            async with self._lock:
                result = await self._run_blocking(self._files.load, partition, number)
        except (OSError, StorageFailure) as error:
            _log.warning(
                "Reading the metadata of %s from its start: cannot read its snapshot: %s", partition, error
            )
            return None
        snapshot: LoadedSnapshot | None = result
        return None if snapshot is None else (snapshot.cache, snapshot.next_offset)

    async def keep(self, may_write: Callable[[], bool], *, is_last: bool) -> None:
        """Write the planned snapshots, unless `may_write` returns False: then a partition is being added.

        Its files must not be removed like those of a partition that has left this node. With `is_last`, write
        all changes.
        """
        async with self._lock:
            if not may_write():
                return
            plan = self._planner.plan(is_last=is_last)
            self._planner.on_planned(plan)
            try:
                await _wait_despite_cancellation(self._run_blocking(self._files.write, *plan))
            except asyncio.CancelledError:
                self._planner.on_failed(plan)  # the outcome is unknown: write all of it again
                raise
            except (OSError, StorageFailure) as error:
                self._planner.on_failed(plan)
                _log.warning("Cannot write snapshots of remote log metadata: %s", error)
            else:
                self._planner.on_written(plan)


async def _wait_despite_cancellation(work: Awaitable[None]) -> None:
    """Wait for the end of `work` even if cancelled, because its thread continues.

    A second cancellation ends the wait.
    """
    future = asyncio.ensure_future(work)
    try:
        await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait((future,))
        raise
