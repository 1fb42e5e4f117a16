"""The node's metadata: one image that everybody asks, and one way to change it.

`image` is what the committed part of the metadata log comes to; it is published to the subscribers
step by step. On the active controller `submit` takes commands. They are worked off in order; each
sees what those before it did. Their records go into the log, and only when the quorum has committed
them do they become part of `image`, are published, and the command is answered. A cancelled caller
does not stop what it has begun.

    following -> claiming: this node was elected -> active: it has applied all that came before
    claiming, active -> following: somebody else was, or nobody; what is not committed is dropped

Bounds: `MAX_PENDING` commands wait; further callers wait for room. The log is replayed in pieces of
`READ_BYTES`, between which the loop does other things.
Errors: KafkaError of the command; NOT_CONTROLLER from a node that is not active, and for what was
not committed when it stopped being that; KAFKA_STORAGE_ERROR once the log cannot be written. A
committed record that cannot be applied ends the node (KAFKA-14275).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from tidelog.broker.metadata.active_controller import ActiveController, Submitted, Written
from tidelog.broker.metadata.batches import decode_batches
from tidelog.broker.metadata.quorum_port import Quorum
from tidelog.broker.metadata.snapshotter import Snapshotter
from tidelog.broker.raft.log import MetadataLog
from tidelog.broker.raft.snapshot_format import read_snapshot
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.delta import InconsistentMetadata, MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.image_difference import difference
from tidelog.cluster.metadata_loader import MetadataLoader
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.metadata_records.abort_transaction_record import AbortTransactionRecord
from tidelog.protocol.schema import MetadataRecord

logger = logging.getLogger(__name__)

R = TypeVar("R")
Subscriber: TypeAlias = Callable[[MetadataDelta, MetadataImage], None]

MAX_PENDING: Final = 1000
READ_BYTES: Final = 128 * 1024


class MetadataStore:
    """See the module; `connect` and `start` before anything else, `close` at the end."""

    def __init__(
        self,
        log: MetadataLog,
        *,
        cluster_id: str,
        node_id: BrokerId,
        first_records: Callable[[], Sequence[MetadataRecord]],
        snapshotter: Snapshotter,
    ) -> None:
        """`first_records`: what is written into the log of a new cluster."""
        self.image = MetadataImage(cluster_id=cluster_id)
        self.failure: KafkaError | None = None
        self.leader: BrokerId | None = None
        """Which node is the active controller; None while nobody is known to be."""
        self.epoch: LeaderEpoch = 0
        """The epoch of the quorum, as last heard."""
        self.active_epoch: LeaderEpoch | None = None
        """The epoch in which this node is the active controller; None when it is not."""
        self.leader_changes = 0
        """How often another node, or this one anew, became the active controller."""
        self.snapshots_loaded = 0
        self._log = log
        self._node_id = node_id
        self._first_records = first_records
        self._snapshotter = snapshotter
        self._quorum: Quorum | None = None
        self._loader = MetadataLoader(self.image)
        self._position: Offset = 0
        self._claim: tuple[LeaderEpoch, Offset] | None = None
        self._active: ActiveController | None = None
        self._subscribers: list[Subscriber] = []
        self._activated: list[Callable[[LeaderEpoch], None]] = []
        self._resigned: list[Callable[[], None]] = []
        self._leader_changed: list[Callable[[], None]] = []
        self._pending: asyncio.Queue[Submitted] = asyncio.Queue(MAX_PENDING)
        self._has_turn = False
        self._replay: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._progress = asyncio.Event()

    # ---- what handlers and followers of the metadata use

    @property
    def controller_image(self) -> MetadataImage:
        """What commands see: `image` and what they have written that is not committed yet."""
        return self.image if self._active is None else self._active.image

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version, which the quorum keeps itself."""
        return 0 if self._quorum is None else self._quorum.kraft_version

    def upgrade_voters(self, *, validate_only: bool) -> None:
        """Within a command: make the static voters dynamic (KIP-853), or only see whether that can be.

        Whoever submits the command has to write a record as well, to be answered when it is committed.
        Errors: KafkaError INVALID_UPDATE_VERSION, NOT_CONTROLLER.
        """
        if self._quorum is None or self._active is None:
            raise self._refusal()
        epoch = self._active.epoch
        reason = self._quorum.upgrade_refusal(epoch)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"the voters cannot become dynamic: {reason}")
        if not validate_only:
            self._quorum.upgrade_voters_now(epoch)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with the whole image now, as a change of an empty one, and with every change."""
        everything = difference(MetadataImage(cluster_id=self.image.cluster_id), self.image)
        subscriber(everything, self.image)
        self._subscribers.append(subscriber)

    def on_activation(self, listener: Callable[[LeaderEpoch], None]) -> None:
        """Call `listener` with the epoch when this node becomes the active controller, now if it is."""
        self._activated.append(listener)
        if self.active_epoch is not None:
            listener(self.active_epoch)

    def on_resignation(self, listener: Callable[[], None]) -> None:
        """Call `listener` when this node is no longer the active controller."""
        self._resigned.append(listener)

    def on_leader_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when another node, this one, or none is the active controller."""
        self._leader_changed.append(listener)

    async def submit(self, command: Callable[[MetadataImage], ControllerResult[R]]) -> R:
        """The command's reply, once what it changes is committed and in `image`."""
        self._require_active()
        submitted = Submitted(command, asyncio.get_running_loop().create_future())
        await self._pending.put(submitted)
        self._ask_for_turn()
        reply: R = await asyncio.shield(submitted.done)
        return reply

    # ---- start and stop

    def start(self, quorum: Quorum) -> None:
        """Take over the latest snapshot, and follow what `quorum` commits from now on.

        Errors: CorruptFile, KafkaError KAFKA_STORAGE_ERROR for a snapshot that cannot be understood.
        """
        self._quorum = quorum
        self._snapshotter.connect(quorum.in_turn)
        latest = self._log.latest_snapshot()
        if latest is not None:
            self.snapshot_loaded(latest)
        else:
            self._position = self._log.start_offset
        self._replay = asyncio.create_task(self._replay_committed(), name="metadata-replay")

    async def finish(self) -> None:
        """Wait until everything that was submitted is answered."""
        while self._active is not None and not (self._pending.empty() and self._active.is_idle):
            self._progress.clear()
            await self._progress.wait()

    async def close(self) -> None:
        """Take no more commands; those that wait fail."""
        self._resign(KafkaError(ErrorCode.NOT_CONTROLLER, "the node is stopping"))
        self._quorum = None
        if self._replay is not None:
            self._replay.cancel()
            await asyncio.gather(self._replay, return_exceptions=True)
        await self._snapshotter.close()

    def fail(self, error: BaseException) -> None:
        """Nothing can be changed any more; everybody who waits hears of it."""
        text = f"the metadata log cannot be written: {error}"
        self.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        self._quorum = None
        self._resign(self.failure)

    # ---- what the quorum tells, in the driver's turn

    def leader_changed(self, epoch: LeaderEpoch, leader: BrokerId | None) -> None:
        """Somebody else leads, or nobody, or this node does in a new epoch."""
        if leader == self._node_id and self._active is not None and self._active.epoch == epoch:
            return
        self.leader_changes += leader is not None
        self.leader, self.epoch = leader, epoch
        self._resign(KafkaError(ErrorCode.NOT_CONTROLLER, f"epoch {epoch} is led by {leader}"))
        if leader == self._node_id:
            self._claim = (epoch, self._log.end_offset)
        for listener in self._leader_changed:
            listener()
        self._changed.set()
        self._progress.set()

    def committed(self, offset: Offset) -> None:
        """The log is committed up to `offset`."""
        if self._active is None:
            self._changed.set()
            return
        self._publish_written(self._active.committed(offset))

    def snapshot_loaded(self, snapshot_id: SnapshotId) -> None:
        """Replace the image by that of a snapshot, which is told as one change."""
        self.snapshots_loaded += 1
        path = self._log.snapshots.path(snapshot_id)
        snapshot = read_snapshot(path, self._log.snapshots.read_all(snapshot_id))
        end_offset, epoch = snapshot_id
        loader = MetadataLoader(MetadataImage(cluster_id=self.image.cluster_id))
        for records in snapshot.batches:
            self._load(loader, records, end_offset - 1, epoch)
        loader.skip_control_records(end_offset - 1, epoch)
        delta = difference(self.image, loader.image)
        self._loader, self._position = loader, end_offset
        self._snapshotter.taken_over(snapshot_id)
        self._publish(delta, loader.image)
        self._progress.set()

    # ---- following

    async def _replay_committed(self) -> None:
        try:
            while True:
                while self._active is None and self._position < self._log.high_watermark:
                    self._replay_piece()
                    await asyncio.sleep(0)
                is_ready = self._claim is not None and self._position >= self._claim[1]
                if is_ready and self._quorum is not None:
                    self._quorum.in_turn(self._activate)
                self._changed.clear()
                await self._changed.wait()
        except Exception as error:
            if self._quorum is not None:
                self._quorum.fail(error)

    def _replay_piece(self) -> None:
        high_watermark = self._log.high_watermark
        for batch in decode_batches(self._log.read_below(self._position, READ_BYTES, high_watermark)):
            if batch.records is None:
                self._loader.skip_control_records(batch.last_offset, batch.epoch)
                if not self._loader.transaction_open:
                    self.image = self._loader.image
            else:
                self._load(self._loader, batch.records, batch.base_offset, batch.epoch, publish=True)
                self._snapshotter.applied(batch.size_bytes)
            self._position = batch.last_offset + 1
        self._after_progress()

    def _load(
        self,
        loader: MetadataLoader,
        records: Sequence[MetadataRecord],
        base_offset: Offset,
        epoch: LeaderEpoch,
        *,
        publish: bool = False,
    ) -> None:
        try:
            steps = loader.load(records, base_offset, epoch)
        except InconsistentMetadata as error:
            text = f"the metadata log contradicts itself: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
        if publish:
            for delta, image in steps:
                self._publish(delta, image)

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for subscriber in self._subscribers:
            try:
                subscriber(delta, image)
            except Exception:
                logger.exception("a subscriber failed at metadata offset %d", image.offset)

    def _after_progress(self) -> None:
        if not self._loader.transaction_open:
            self._snapshotter.offer(self.image)
        self._progress.set()

    # ---- leading

    def _activate(self) -> None:
        """In a turn: everything before the claim is applied, so commands may be decided on."""
        claim, self._claim = self._claim, None
        if claim is None or self._quorum is None:
            return
        epoch, _ = claim
        active = ActiveController(
            epoch, self._loader.fork(), lambda: self._log.end_offset, self._quorum.append_now
        )
        try:
            if active.transaction_open:
                active.write([AbortTransactionRecord(reason="the controller that began it is gone")])
            if not active.image.features:
                active.write(self._first_records())
        except KafkaError as error:
            logger.warning("controller epoch %d ended before it began: %s", epoch, error)
            self._quorum.give_up()
            return
        self._active = active
        if active.is_idle:
            self._announce(epoch)

    def _announce(self, epoch: LeaderEpoch) -> None:
        self.active_epoch = epoch
        logger.info("node %d is the active controller of epoch %d", self._node_id, epoch)
        for listener in self._activated:
            listener(epoch)
        for hears in self._leader_changed:
            hears()
        self._progress.set()

    def _require_active(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.active_epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} is not the active controller")

    def _ask_for_turn(self) -> None:
        if self._quorum is None:
            # It ended while this one waited for room.
            self._fail_pending(self._refusal())
        elif not self._has_turn:
            self._has_turn = True
            self._quorum.in_turn(self._work)

    def _work(self) -> None:
        """In a turn: carry out all commands that wait."""
        self._has_turn = False
        while not self._pending.empty():
            submitted = self._pending.get_nowait()
            if self._active is not None:
                self._active.perform(submitted)
            else:
                submitted.fail(self._refusal())
        self._progress.set()

    def _publish_written(self, written: Sequence[Written]) -> None:
        for each in written:
            for delta, image in each.steps:
                self._publish(delta, image)
            if each.steps:
                self._position = each.end_offset
                self._loader = MetadataLoader(self.image)
                self._snapshotter.applied(each.size_bytes)
            if each.submitted is not None:
                each.submitted.answer()
        if written and self._active is not None and self.active_epoch is None:
            self._announce(self._active.epoch)
        self._after_progress()

    def _resign(self, error: KafkaError) -> None:
        self._claim = None
        active, self._active = self._active, None
        was_announced, self.active_epoch = self.active_epoch is not None, None
        if active is not None:
            active.fail_all(error)
        self._fail_pending(error)
        if was_announced:
            for listener in self._resigned:
                listener()
        self._progress.set()

    def _fail_pending(self, error: KafkaError) -> None:
        while not self._pending.empty():
            self._pending.get_nowait().fail(KafkaError(error.code, str(error)))

    def _refusal(self) -> KafkaError:
        return self.failure or KafkaError(ErrorCode.NOT_CONTROLLER, "this node is no longer the controller")
