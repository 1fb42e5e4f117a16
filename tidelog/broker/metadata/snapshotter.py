"""Writes snapshots of the metadata, in a thread.

A snapshot is written after a number of bytes of records, or some time after the first change that no
snapshot contains. When it is complete, in the driver's task, readers can read it and the log below older
snapshots is deleted.

Bounds: one snapshot is written at a time. Errors: a failure to write a snapshot is logged, and the next
snapshot is written at its time. Without a snapshot only the next start is slower. Source: SnapshotGenerator
of Apache Kafka; KIP-630.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.raft.log import MetadataLog
from tidelog.broker.raft.snapshot_format import SnapshotHead, snapshot_batches
from tidelog.broker.raft.steps import Callback
from tidelog.cluster.features import metadata_version
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.image_records import image_records
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.voter_set import VoterSet
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """Each field is the broker key of the same name with underscores for dots.

    An interval of 0 means no limit.
    """

    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int


class Snapshotter:
    """Counts the applied records, and writes snapshots of the metadata."""

    def __init__(
        self,
        log: MetadataLog,
        settings: SnapshotSettings,
        *,
        clock: Clock,
        executor: Executor,
        voters_at: Callable[[Offset], tuple[int, VoterSet | None]],
        schedule: Callable[[Callback], None],
    ) -> None:
        """Create it without an image.

        `voters_at` returns kraft.version and the voters at an offset, for the snapshot. `schedule` calls a
        callback in the task of the driver, which owns the log.
        """
        self.snapshots_written = 0
        """The number of snapshots that this node has written."""
        self.failures = 0
        """The number of snapshots that could not be written."""
        self._log = log
        self._settings = settings
        self._clock = clock
        self._executor = executor
        self._voters_at = voters_at
        self._schedule = schedule
        self._is_closed = False
        self._changed_bytes = 0
        self._is_overdue = False
        self._image: MetadataImage | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._write_task: asyncio.Task[None] | None = None

    def on_applied(self, size_bytes: int) -> None:
        """Count applied records of `size_bytes`."""
        self._changed_bytes += size_bytes
        interval_ms = self._settings.metadata_log_max_snapshot_interval_ms
        if self._timer is None and interval_ms > 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(interval_ms / 1000, self._on_interval_passed)

    def offer(self, image: MetadataImage) -> None:
        """Store an image that is complete at the end of a batch; write a snapshot of it if necessary."""
        self._image = image
        self._write_if_needed()

    def on_snapshot_loaded(self, snapshot_id: SnapshotId) -> None:
        """Reset the counters, because the loaded snapshot contains the changes."""
        logger.debug("Loaded the metadata snapshot at offset %d", snapshot_id.end_offset)
        self._reset_counters()

    async def close(self) -> None:
        """Wait for the snapshot that is being written; start no other."""
        self._is_closed = True
        self._reset_counters()
        if self._write_task is not None:
            await asyncio.gather(self._write_task, return_exceptions=True)

    def _on_interval_passed(self) -> None:
        self._timer = None
        self._is_overdue = True
        self._write_if_needed()

    def _reset_counters(self) -> None:
        self._changed_bytes, self._is_overdue = 0, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_if_needed(self) -> None:
        """Start to write a snapshot if one is required and none is being written."""
        max_bytes = self._settings.metadata_log_max_record_bytes_between_snapshots
        is_needed = self._is_overdue or self._changed_bytes >= max_bytes
        if not is_needed or self._image is None or self._write_task is not None or self._is_closed:
            return
        image = self._image
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        latest = self._log.latest_snapshot()
        self._reset_counters()
        if latest is None or snapshot_id.end_offset > latest.end_offset:
            self._write_task = asyncio.create_task(self._write(snapshot_id, image), name="metadata-snapshot")

    async def _write(self, snapshot_id: SnapshotId, image: MetadataImage) -> None:
        end_offset = snapshot_id.end_offset
        try:
            write = self._create_write(snapshot_id, image)
            await asyncio.get_running_loop().run_in_executor(self._executor, write)
        except (OSError, KafkaError) as error:
            self.failures += 1
            logger.error("Cannot write the metadata snapshot at offset %d: %s", end_offset, error)
        except Exception:
            self.failures += 1
            logger.exception("Cannot write the metadata snapshot at offset %d", end_offset)
        else:
            self.snapshots_written += 1
            if not self._is_closed:
                self._schedule(lambda: self._on_written(snapshot_id))
        finally:
            self._write_task = None

    def _create_write(self, snapshot_id: SnapshotId, image: MetadataImage) -> Callable[[], None]:
        """Return a function that writes the snapshot; its header describes the log as it is now."""
        end_offset, epoch = snapshot_id
        kraft_version, voters = self._voters_at(end_offset)
        voters_record = None if voters is None else voters.to_record()
        head = SnapshotHead(self._log.timestamp_before(end_offset), kraft_version, voters_record)
        now_ms = self._clock.wall_ms()

        def write() -> None:
            batches = snapshot_batches(
                image_records(image),
                head,
                epoch=epoch,
                now_ms=now_ms,
                metadata_version=metadata_version(image),
            )
            self._log.snapshots.write(snapshot_id, batches)

        return write

    def _on_written(self, snapshot_id: SnapshotId) -> None:
        """Make the snapshot readable, and delete what only older snapshots need; in the driver's task."""
        if snapshot_id.end_offset < self._log.start_offset:
            return
        self._log.snapshots.add(snapshot_id)
        logger.info("Wrote metadata snapshot %s", self._log.snapshots.path(snapshot_id))
        try:
            self._log.clean()
        except (KafkaError, OSError) as error:
            # The old data stays; this is not fatal for a voter.
            logger.error("Cannot delete old metadata: %s", error)
