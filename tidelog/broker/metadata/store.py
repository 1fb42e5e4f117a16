"""The metadata of a node: one image for all its parts, which only committed records change.

`image` contains the committed records of the metadata log. Every change is published to the subscribers. A
follower replays the log up to the high watermark. The active controller applies its own records when they are
committed.

Bounds: the log is replayed, and committed batches are published, in pieces of PIECE_BYTES, or of one larger
batch. Other callbacks run between two pieces, and between the slices in which the records of a batch are
decoded and applied.
Errors: a committed record that cannot be applied ends the node (KAFKA-14275).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, TypeVar

from tidelog.broker.metadata.batches import decode_batches
from tidelog.broker.metadata.leadership import Command, ControllerLeadership
from tidelog.broker.metadata.quorum_port import Quorum
from tidelog.broker.metadata.snapshotter import Snapshotter
from tidelog.broker.raft.log import MetadataLog
from tidelog.broker.raft.snapshot_format import read_snapshot
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.delta import InconsistentMetadata, MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.image_difference import difference
from tidelog.cluster.metadata_loader import MetadataLoader, PublishedChange
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps, run_steps

logger = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT")
Subscriber: TypeAlias = Callable[[MetadataDelta, MetadataImage], None]

PIECE_BYTES: Final = 32 * 1024
"""About 1,000 changes of partitions, which take 10 ms."""


class MetadataStore:
    """Owns the image and the position in the log; call `start` first and `close` last."""

    def __init__(
        self,
        log: MetadataLog,
        quorum: Quorum,
        *,
        cluster_id: str,
        leadership: ControllerLeadership,
        snapshotter: Snapshotter,
        slices: Slices,
        on_fatal: Callable[[Exception], None],
    ) -> None:
        """Create it with an empty image; `on_fatal` is called if a committed record cannot be applied."""
        self.image = MetadataImage(cluster_id=cluster_id)
        self.leadership = leadership
        self.snapshots_loaded = 0
        self.has_caught_up = False
        """Whether the image has had all records that this node knew to be committed, once since the start."""
        self._log = log
        self._quorum = quorum
        self._snapshotter = snapshotter
        self._slices = slices
        self._on_fatal = on_fatal
        self._loader = MetadataLoader(self.image)
        self._position: Offset = 0
        self._high_watermark: Offset = 0
        """As last reported while this node is the leader of the log."""
        self._has_high_watermark = False
        """Whether a leader has reported the high watermark; that of the log can be of an old snapshot."""
        self._is_publishing = False
        """Whether a later turn of the event loop publishes further batches."""
        self._subscribers: list[Subscriber] = []
        self._replay_task: asyncio.Task[None] | None = None
        self._work_event = asyncio.Event()
        """Set when there may be records to apply, or a claim to complete."""

    # ---- for handlers and subscribers

    @property
    def controller_image(self) -> MetadataImage:
        """The image that commands see, with the uncommitted records of earlier commands."""
        image = self.leadership.image
        return self.image if image is None else image

    @property
    def leader(self) -> BrokerId | None:
        """The node that is the active controller; None if it is unknown."""
        return self.leadership.leader

    @property
    def active_epoch(self) -> LeaderEpoch | None:
        """The epoch in which this node is the active controller; None if it is not."""
        return self.leadership.active_epoch

    @property
    def failure(self) -> KafkaError | None:
        """The error after which the metadata log can no longer be written; None if it can."""
        return self.leadership.failure

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version, which the quorum stores itself."""
        return self._quorum.kraft_version

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with the whole image now, as a change of an empty one, and with every change."""
        everything = difference(MetadataImage(cluster_id=self.image.cluster_id), self.image)
        subscriber(everything, self.image)
        self._subscribers.append(subscriber)

    async def submit(self, command: Command[ReplyT]) -> ReplyT:
        """Return the command's reply when its records are committed and in `image`.

        Errors: KafkaError of the command, and those of `ControllerLeadership`.
        """
        return await self.leadership.submit(command)

    # ---- start and stop

    def start(self) -> None:
        """Load the latest snapshot, and apply committed records from now on.

        Errors: CorruptFile, KafkaError KAFKA_STORAGE_ERROR for a snapshot that cannot be decoded.
        """
        latest = self._log.latest_snapshot()
        if latest is not None:
            self.on_snapshot_loaded(latest)
        else:
            self._position = self._log.start_offset
        self._replay_task = asyncio.create_task(self._replay_committed(), name="metadata-replay")

    async def finish(self) -> None:
        """Wait until every submitted command has its reply."""
        await self.leadership.finish()

    async def close(self) -> None:
        """Accept no more commands and apply no more records; waiting commands fail."""
        self.leadership.close()
        if self._replay_task is not None:
            self._replay_task.cancel()
            await asyncio.gather(self._replay_task, return_exceptions=True)
        await self._snapshotter.close()

    def fail(self, error: BaseException) -> None:
        """Accept no more commands because the quorum has failed; waiting commands fail."""
        self.leadership.fail(error)

    # ---- the quorum's listener, in the driver's task

    def on_leader_changed(self, epoch: LeaderEpoch, leader: BrokerId | None) -> None:
        """Apply an election; `leader` is None if there is no leader."""
        self.leadership.on_leader_changed(epoch, leader)
        self._work_event.set()

    def on_committed(self, offset: Offset) -> None:
        """Apply the records up to the high watermark `offset`, now if this node has written them."""
        self._has_high_watermark = True
        if self.leadership.is_log_leader:
            self._high_watermark = offset
            if not self._is_publishing:
                self._publish_written()
        else:
            self._work_event.set()

    def on_snapshot_loaded(self, snapshot_id: SnapshotId) -> None:
        """Replace the image by that of a snapshot, and publish the difference as one change."""
        self.snapshots_loaded += 1
        path = self._log.snapshots.path(snapshot_id)
        snapshot = read_snapshot(path, self._log.snapshots.read_all(snapshot_id))
        end_offset, epoch = snapshot_id
        loader = MetadataLoader(MetadataImage(cluster_id=self.image.cluster_id))
        for records in snapshot.batches:
            run_steps(_load(loader, records, end_offset - 1, epoch))
        loader.skip_control_records(end_offset - 1, epoch)
        delta = difference(self.image, loader.image)
        self._loader, self._position = loader, end_offset
        self._snapshotter.on_snapshot_loaded(snapshot_id)
        self._publish(delta, loader.image)

    # ---- applying records

    async def _replay_committed(self) -> None:
        try:
            while True:
                while not self.leadership.is_log_leader and self._position < self._log.high_watermark:
                    await self._replay_piece()
                    await asyncio.sleep(0)
                self._check_progress()
                if self.leadership.can_activate(self._position):
                    self._quorum.schedule(lambda: self.leadership.activate(self._loader.fork()))
                self._work_event.clear()
                await self._work_event.wait()
        except Exception as error:
            if self.failure is None:
                self._on_fatal(error)

    async def _replay_piece(self) -> None:
        """Apply and publish the next PIECE_BYTES of the log; each batch in slices of its records."""
        high_watermark = self._log.high_watermark
        for batch in decode_batches(self._log.read(self._position, PIECE_BYTES, high_watermark)):
            loader = self._loader
            if batch.records is None:
                loader.skip_control_records(batch.last_offset, batch.epoch)
                if not loader.is_transaction_open:
                    self.image = loader.image
            else:
                loading = _load(loader, batch.records, batch.base_offset, batch.epoch)
                changes = await self._slices.complete(loading)
                if self._loader is not loader:
                    return  # A snapshot with these records was loaded meanwhile.
                for delta, image in changes:
                    self._publish(delta, image)
                self._snapshotter.on_applied(batch.size_bytes)
            self._position = batch.last_offset + 1
        self._offer_snapshot()

    def _publish_written(self) -> None:
        """Publish the next committed batches of this node, and complete their commands."""
        written = self.leadership.take_committed(self._high_watermark, PIECE_BYTES)
        for each in written:
            for delta, image in each.steps:
                self._publish(delta, image)
            if each.steps:
                self._position = each.end_offset
                self._loader = MetadataLoader(self.image)
                self._snapshotter.on_applied(each.size_bytes)
            if each.submitted is not None:
                each.submitted.complete()
        if written:
            self.leadership.on_published()
        self._check_progress()
        self._offer_snapshot()
        self._is_publishing = self.leadership.has_committed(self._high_watermark)
        if self._is_publishing:
            asyncio.get_running_loop().call_soon(self._publish_written)

    def _check_progress(self) -> None:
        """Record that the image has caught up. It stays so without a leader, and when new records arrive."""
        has_records = self.image.offset >= 0 and self._position >= self._log.high_watermark
        if (self._has_high_watermark and has_records) or self.active_epoch is not None:
            self.has_caught_up = True

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for subscriber in self._subscribers:
            try:
                subscriber(delta, image)
            except Exception:
                logger.exception("A subscriber failed to apply metadata offset %d", image.offset)

    def _offer_snapshot(self) -> None:
        if not self._loader.is_transaction_open:
            self._snapshotter.offer(self.image)


def _load(
    loader: MetadataLoader, records: Iterable[MetadataRecord], base_offset: Offset, epoch: LeaderEpoch
) -> Steps[list[PublishedChange]]:
    """Replay one batch of records; return the changes to publish."""
    try:
        return (yield from loader.load(records, base_offset, epoch))
    except InconsistentMetadata as error:
        text = f"the metadata log contradicts itself: {error}"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
