"""The node's metadata: one image that everybody asks, and one way to change it.

`submit` takes a controller's command. Commands are worked off in order; each sees what those
before it did. Their records go into the metadata log, are made durable together, and only then
become part of `image`, are published to the subscribers, and answered. A cancelled caller does
not stop what it has begun.

Bounds: `MAX_PENDING` commands wait; further callers wait for room.
I/O: the metadata log, synced in `executor`. Errors: KafkaError of the command; KAFKA_STORAGE_ERROR
when the log cannot be written. After a failed sync nothing can be changed until the node starts
anew, because nobody knows what is on the disk.
Later a quorum takes the place of this file; handlers will not notice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker.clock import Clock
from broker.metadata.log import MetadataLog
from cluster.controller.bootstrap import bootstrap_records
from cluster.controller.result import ControllerResult
from cluster.delta import InconsistentMetadata, MetadataDelta
from cluster.image import MetadataImage
from cluster.image_records import image_records
from cluster.metadata_loader import MetadataLoader, Published
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import BrokerId, LeaderEpoch
from protocol.metadata_records.abort_transaction_record import AbortTransactionRecord
from protocol.schema import MetadataRecord

logger = logging.getLogger(__name__)

R = TypeVar("R")
Command = Callable[[MetadataImage], ControllerResult[R]]
Subscriber = Callable[[MetadataDelta, MetadataImage], None]

MAX_PENDING: Final = 1000


@dataclass(slots=True)
class _Submitted:
    command: Command[Any]
    done: asyncio.Future[Any]
    reply: Any = None


class MetadataStore:
    """See the module; `start` before the first `submit`, `close` at the end."""

    def __init__(
        self,
        log: MetadataLog,
        *,
        cluster_id: str,
        node_id: BrokerId,
        clock: Clock,
        executor: Executor,
    ) -> None:
        self.image = MetadataImage(cluster_id=cluster_id)
        self.failure: KafkaError | None = None
        self._log = log
        self._node_id = node_id
        self._clock = clock
        self._executor = executor
        self._loader = MetadataLoader(self.image)
        self._subscribers: list[Subscriber] = []
        self._pending: asyncio.Queue[_Submitted | None] = asyncio.Queue(MAX_PENDING)
        self._worker: asyncio.Task[None] | None = None
        self.active_epoch: LeaderEpoch | None = None
        """The epoch in which this node is the active controller; None when it is not."""
        self._activated: list[Callable[[LeaderEpoch], None]] = []
        self._resigned: list[Callable[[], None]] = []

    @property
    def leader(self) -> BrokerId | None:
        """Which node is the active controller; None while nobody is known to be."""
        return None if self.active_epoch is None else self._node_id

    @property
    def controller_image(self) -> MetadataImage:
        """What commands see: `image` and what they have written that is not committed yet."""
        return self._loader.image

    def on_activation(self, listener: Callable[[LeaderEpoch], None]) -> None:
        """Call `listener` with the epoch when this node becomes the active controller, now if it is."""
        self._activated.append(listener)
        if self.active_epoch is not None:
            listener(self.active_epoch)

    def on_resignation(self, listener: Callable[[], None]) -> None:
        """Call `listener` when this node is no longer the active controller."""
        self._resigned.append(listener)

    async def start(self, min_insync_replicas: int) -> None:
        """Replay the log, begin a new epoch, and write the first records of a new cluster.

        `min_insync_replicas` goes into the first records. Errors: KafkaError KAFKA_STORAGE_ERROR
        for a log that cannot be understood.
        """
        try:
            for batch in self._log.read_all():
                if batch.records is None:
                    self._loader.skip_control_records(batch.last_offset, batch.epoch)
                else:
                    self._loader.load(batch.records, batch.base_offset, batch.epoch)
        except InconsistentMetadata as error:
            text = f"the metadata log contradicts itself: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
        now_ms = self._clock.wall_ms()
        begun = self._log.append_leader_change(self._node_id, now_ms)
        self._loader.skip_control_records(begun.last_offset, begun.epoch)
        if self._loader.transaction_open:
            self._append([AbortTransactionRecord(reason="the controller that began it is gone")])
        if not self._loader.image.features:
            self._append(bootstrap_records(min_insync_replicas))
        await self._flush()
        self.image = self._loader.image
        self._worker = asyncio.create_task(self._work(), name="metadata-store")
        self.active_epoch = self._log.epoch
        for listener in self._activated:
            listener(self._log.epoch)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with the whole image now, as a change of an empty one, and with every change."""
        everything = MetadataDelta(MetadataImage(cluster_id=self.image.cluster_id))
        for record in image_records(self.image):
            everything.replay(record)
        subscriber(everything, self.image)
        self._subscribers.append(subscriber)

    async def submit(self, command: Command[R]) -> R:
        """The command's reply, once what it changes is durable and in `image`."""
        if self.failure is not None:
            raise self.failure
        if self._worker is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the node is not started, or is stopping")
        submitted = _Submitted(command, asyncio.get_running_loop().create_future())
        await self._pending.put(submitted)
        reply: R = await asyncio.shield(submitted.done)
        return reply

    async def close(self) -> None:
        """Finish what was submitted, then close the log."""
        worker, self._worker = self._worker, None
        self._resign()
        if worker is not None:
            if not worker.done():
                await self._pending.put(None)
            await asyncio.gather(worker, return_exceptions=True)
        self._fail_pending(KafkaError(ErrorCode.NOT_CONTROLLER, "the node is stopping"))
        self._log.close(self._clock.wall_ms())

    async def abandon(self) -> None:
        """Stop as a crash would: what waits is not done, and nothing more is written."""
        worker, self._worker = self._worker, None
        self._resign()
        if worker is not None:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    def _resign(self) -> None:
        if self.active_epoch is not None:
            self.active_epoch = None
            for listener in self._resigned:
                listener()

    async def _work(self) -> None:
        submitted: list[_Submitted] = []
        try:
            while True:
                batch = [await self._pending.get()]
                while not self._pending.empty():
                    batch.append(self._pending.get_nowait())
                submitted = [each for each in batch if each is not None]
                await self._commit(submitted)
                if len(submitted) < len(batch):
                    return
        except BaseException as error:
            # Whoever waits must hear of it: nobody else will answer.
            if isinstance(error, asyncio.CancelledError):
                self.failure = KafkaError(ErrorCode.NOT_CONTROLLER, "the node is stopping")
            else:
                self._stop_writing(error)
            assert self.failure is not None
            for each in submitted:
                _fail(each, self.failure)
            self._fail_pending(self.failure)
            raise

    async def _commit(self, submitted: list[_Submitted]) -> None:
        steps: list[Published] = []
        waiting: list[_Submitted] = []
        for each in submitted:
            try:
                steps += self._perform(each)
                waiting.append(each)
            except KafkaError as error:
                _fail(each, error)
            except Exception as error:
                logger.exception("a metadata command failed")
                _fail(each, error)
        if steps and not await self._flush_or_fail(waiting):
            return
        for delta, image in steps:
            self.image = image
            self._publish(delta, image)
        for each in waiting:
            if not each.done.done():
                each.done.set_result(each.reply)

    def _perform(self, submitted: _Submitted) -> list[Published]:
        if self.failure is not None:
            raise self.failure
        result = submitted.command(self._loader.image)
        submitted.reply = result.reply
        return self._append(result.records) if result.records else []

    def _append(self, records: Sequence[MetadataRecord]) -> list[Published]:
        before = self._loader.image
        try:
            steps = self._loader.load(records, self._log.end_offset, self._log.epoch)
            self._log.append(records, self._clock.wall_ms())
        except Exception:
            self._loader = MetadataLoader(before)
            raise
        return steps

    async def _flush_or_fail(self, waiting: list[_Submitted]) -> bool:
        try:
            await self._flush()
        except (KafkaError, OSError) as error:
            self._stop_writing(self._log.sync_failed(error))
            assert self.failure is not None
            for each in waiting:
                _fail(each, self.failure)
            return False
        return True

    async def _flush(self) -> None:
        plan = self._log.flush_plan()
        await asyncio.get_running_loop().run_in_executor(self._executor, plan.run)
        self._log.flushed(plan, self._clock.wall_ms())

    def _fail_pending(self, error: KafkaError) -> None:
        while not self._pending.empty():
            if (late := self._pending.get_nowait()) is not None:
                _fail(late, error)

    def _stop_writing(self, error: BaseException) -> None:
        logger.error("the metadata log cannot be written, nothing can be changed: %s", error)
        text = f"the metadata log cannot be written: {error}"
        self.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(delta, image)
            except Exception:
                logger.exception("a subscriber failed at metadata offset %d", image.offset)


def _fail(submitted: _Submitted, error: Exception) -> None:
    if not submitted.done.done():
        submitted.done.set_exception(error)
        # The caller may be gone; its error is then nobody's.
        submitted.done.exception()
