"""When a snapshot of the metadata is written, and writing it without holding anybody up.

Due after so many bytes of records, or so long after the first change that no snapshot has. The image
is encoded and written in a thread; then, in a turn of the driver, readers may have the snapshot and
the log below older ones goes.

Bounds: one snapshot is written at a time.
Errors: a snapshot that cannot be written is reported and left for the next time it is due; nothing
is lost without it but time at the next start.
Source: SnapshotGenerator of Apache Kafka; KIP-630.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from tidelog.base.clock import Clock
from tidelog.broker.raft.driver import Turn
from tidelog.broker.raft.log import MetadataLog
from tidelog.broker.raft.snapshot_format import SnapshotHead, snapshot_batches
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.image_records import image_records
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.voter_set import VoterSet
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """`metadata.log.max.record.bytes.between.snapshots` and `metadata.log.max.snapshot.interval.ms`.

    An interval of 0 is none.
    """

    max_bytes: int = 20_971_520
    max_interval_ms: int = 3_600_000


class Snapshotter:
    """Told what is applied; `connect` before the first snapshot can be due."""

    def __init__(
        self,
        log: MetadataLog,
        settings: SnapshotSettings,
        *,
        clock: Clock,
        executor: Executor,
        voters_at: Callable[[Offset], tuple[int, VoterSet | None]],
    ) -> None:
        """`voters_at`: kraft.version and voters as of an offset, which go into the snapshot."""
        self.written = 0
        """Snapshots that this node has written."""
        self.errors = 0
        self._log = log
        self._settings = settings
        self._clock = clock
        self._executor = executor
        self._voters_at = voters_at
        self._in_turn: Callable[[Turn], None] | None = None
        self._bytes = 0
        self._is_overdue = False
        self._image: MetadataImage | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def connect(self, in_turn: Callable[[Turn], None]) -> None:
        """`in_turn` of the driver that owns the log."""
        self._in_turn = in_turn

    def applied(self, size_bytes: int) -> None:
        """Records of so many bytes were applied."""
        self._bytes += size_bytes
        if self._timer is None and self._settings.max_interval_ms > 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._settings.max_interval_ms / 1000, self._time_passed)

    def offer(self, image: MetadataImage) -> None:
        """An image at the end of a batch, of which a snapshot may be written now or later."""
        self._image = image
        self._write_if_due()

    def taken_over(self, snapshot_id: SnapshotId) -> None:
        """A snapshot with everything up to now is there already."""
        logger.debug("metadata are taken over from the snapshot at offset %d", snapshot_id.end_offset)
        self._forget_changes()

    async def close(self) -> None:
        """Wait for what is being written; no more is begun."""
        self._in_turn = None
        self._forget_changes()
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    def _time_passed(self) -> None:
        self._timer = None
        self._is_overdue = True
        self._write_if_due()

    def _forget_changes(self) -> None:
        self._bytes, self._is_overdue = 0, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_if_due(self) -> None:
        is_due = self._is_overdue or self._bytes >= self._settings.max_bytes
        if not is_due or self._image is None or self._writing is not None or self._in_turn is None:
            return
        image = self._image
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        latest = self._log.latest_snapshot()
        self._forget_changes()
        if latest is None or snapshot_id.end_offset > latest.end_offset:
            self._writing = asyncio.create_task(self._write(snapshot_id, image), name="metadata-snapshot")

    async def _write(self, snapshot_id: SnapshotId, image: MetadataImage) -> None:
        end_offset = snapshot_id.end_offset
        try:
            write = self._writer(snapshot_id, image)
            await asyncio.get_running_loop().run_in_executor(self._executor, write)
        except (OSError, KafkaError) as error:
            self.errors += 1
            logger.error("the metadata snapshot at offset %d cannot be written: %s", end_offset, error)
        except Exception:
            self.errors += 1
            logger.exception("the metadata snapshot at offset %d cannot be written", end_offset)
        else:
            self.written += 1
            if self._in_turn is not None:
                self._in_turn(lambda: self._completed(snapshot_id))
        finally:
            self._writing = None

    def _writer(self, snapshot_id: SnapshotId, image: MetadataImage) -> Callable[[], None]:
        """What writes the snapshot, with all that it says of the log as it is now."""
        end_offset, epoch = snapshot_id
        kraft_version, voters = self._voters_at(end_offset)
        voters_record = None if voters is None else voters.to_record()
        head = SnapshotHead(self._log.timestamp_before(end_offset), kraft_version, voters_record)
        now_ms = self._clock.wall_ms()

        def write() -> None:
            batches = snapshot_batches(image_records(image), head, epoch=epoch, now_ms=now_ms)
            self._log.snapshots.write(snapshot_id, batches)

        return write

    def _completed(self, snapshot_id: SnapshotId) -> None:
        """In a turn: the snapshot is there; what only older ones need may go."""
        if snapshot_id.end_offset < self._log.start_offset:
            return
        self._log.snapshots.add(snapshot_id)
        logger.info("metadata snapshot %s is written", self._log.snapshots.path(snapshot_id))
        try:
            self._log.clean()
        except (KafkaError, OSError) as error:
            # What is too much stays; a voter does not end for that.
            logger.error("the metadata log cannot be cleaned: %s", error)
