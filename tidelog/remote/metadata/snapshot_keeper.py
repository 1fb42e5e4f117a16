"""Snapshots of what is known, written and read in threads while the loop goes on (shell).

One use of the files at a time: what arrives while they are written finds them as they are then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.cache import RemoteLogMetadataCache
from tidelog.remote.metadata.snapshot_files import SnapshotFiles
from tidelog.remote.metadata.snapshot_plan import SnapshotPlanner
from tidelog.remote.ports.segment_metadata import RemotePartitionDeleteMetadata, TopicIdPartition
from tidelog.storage.disk.errors import StorageFailure

RunBlocking: TypeAlias = Callable[..., Awaitable[Any]]
"""Calls a function with arguments in a thread."""

_log = logging.getLogger(__name__)


class SnapshotKeeper:
    """Writes what the planner finds worth it. A disk that fails makes the next start longer, nothing else."""

    def __init__(self, files: SnapshotFiles, planner: SnapshotPlanner, run_blocking: RunBlocking) -> None:
        self._files = files
        self._planner = planner
        self._run_blocking = run_blocking
        self._lock = asyncio.Lock()

    async def deletions(self) -> Sequence[RemotePartitionDeleteMetadata]:
        """The deletions of partitions that were under way; none of them when they cannot be read."""
        try:
            found: Sequence[RemotePartitionDeleteMetadata] = await self._run_blocking(self._files.deletions)
        except (OSError, StorageFailure) as error:
            _log.warning("deletions of partitions that are under way could not be read: %s", error)
            return ()
        return found

    async def keep_deletions(self) -> None:
        """Write the deletions that are under way by now.

        Nobody reads the metadata of a partition that is nowhere: after a crash there is no other word.
        """
        async with self._lock:
            under_way = self._planner.deletions()
            try:
                await self._run_blocking(self._files.write_deletions, under_way)
            except (OSError, StorageFailure) as error:
                _log.warning("deletions of partitions that are under way could not be written: %s", error)

    async def restored(
        self, partition: TopicIdPartition, number: int
    ) -> tuple[RemoteLogMetadataCache, Offset] | None:
        """What was known of a partition, and the offset in metadata partition `number` up to which."""
        try:
            async with self._lock:
                loaded = await self._run_blocking(_restored, self._files, partition, number)
        except (OSError, StorageFailure) as error:
            _log.warning("the metadata of %s is read from its start: %s", partition, error)
            return None
        found: tuple[RemoteLogMetadataCache, Offset] | None = loaded
        return found

    async def keep(self, is_settled: Callable[[], bool], *, is_last: bool) -> None:
        """Write what is worth it, once `is_settled` says that no partition is about to arrive.

        The files of one that arrives must not be taken for those of a partition that has left.
        """
        async with self._lock:
            if not is_settled():
                return
            plan = self._planner.plan(is_last=is_last)
            self._planner.planned(plan)
            try:
                await _to_the_end(self._run_blocking(self._files.write, *plan))
            except asyncio.CancelledError:
                self._planner.failed(plan)  # nobody heard of its end: all of it is written again
                raise
            except (OSError, StorageFailure) as error:
                self._planner.failed(plan)
                _log.warning("snapshots of remote log metadata could not be written: %s", error)
            else:
                self._planner.written(plan)


async def _to_the_end(work: Awaitable[None]) -> None:
    """Wait for `work` even when cancelled, as a thread goes on all the same; a second time gives up."""
    ending = asyncio.ensure_future(work)
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait((ending,))
        raise


def _restored(
    files: SnapshotFiles, partition: TopicIdPartition, number: int
) -> tuple[RemoteLogMetadataCache, Offset] | None:
    loaded = files.load(partition, number)
    if loaded is None:
        return None
    cache = RemoteLogMetadataCache(partition)
    cache.restore(loaded.segments, loaded.highest_offsets)
    return cache, loaded.next_offset
