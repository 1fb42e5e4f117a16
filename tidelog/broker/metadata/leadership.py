"""The role of this node as the active controller: claiming it, performing commands, and losing it.

    following -> claiming          the quorum has elected this node
    claiming -> active             all records before the claim are applied
    claiming, active -> following  another node is elected, or none; uncommitted batches are dropped

Commands are performed in order. Each sees the changes of all earlier commands. The reply is sent when its
records are committed; a cancelled caller does not cancel its command. A command may be divided into steps,
which run in slices. Later commands wait until it is complete. The image that its steps read therefore does
not change, and other work of the event loop runs in between.

Bounds: `MAX_PENDING` commands wait; further callers wait for room.
Errors: KafkaError of the command. NOT_CONTROLLER on a node that is not active, and for commands that are not
committed when the node loses the role. KAFKA_STORAGE_ERROR when the log can no longer be written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from tidelog.broker.metadata.active_controller import (
    ActiveController,
    PreparedCommand,
    SubmittedCommand,
    WrittenBatch,
)
from tidelog.broker.metadata.quorum_port import Quorum
from tidelog.broker.scheduling.slices import Slices, Work
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.metadata_loader import MetadataLoader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.metadata_records.abort_transaction_record import AbortTransactionRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT")
OutcomeT = TypeVar("OutcomeT")
Command: TypeAlias = Callable[[MetadataImage], ControllerResult[ReplyT] | Steps[ControllerResult[ReplyT]]]

MAX_PENDING: Final = 1000


class ControllerLeadership:
    """Knows the active controller of the cluster, and performs commands while that is this node."""

    def __init__(
        self,
        node_id: BrokerId,
        quorum: Quorum,
        *,
        log_end_offset: Callable[[], Offset],
        first_records: Callable[[], Sequence[MetadataRecord]],
        slices: Slices,
    ) -> None:
        """Create it; `first_records` returns the records that the first controller of a cluster writes."""
        self.leader: BrokerId | None = None
        """The node that is the active controller; None if it is unknown."""
        self.epoch: LeaderEpoch = 0
        """The epoch of the quorum, as last reported."""
        self.active_epoch: LeaderEpoch | None = None
        """The epoch in which this node is the active controller; None if it is not."""
        self.leader_changes = 0
        """The number of elections of an active controller."""
        self.failure: KafkaError | None = None
        """The error after which the metadata log can no longer be written."""
        self._node_id = node_id
        self._quorum = quorum
        self._log_end_offset = log_end_offset
        self._first_records = first_records
        self._slices = slices
        self._claim: tuple[LeaderEpoch, Offset] | None = None
        self._active: ActiveController | None = None
        self._pending_commands: asyncio.Queue[SubmittedCommand] = asyncio.Queue(MAX_PENDING)
        self._running_command: tuple[SubmittedCommand, Work] | None = None
        """A command whose steps run in slices."""
        self._is_scheduled = False
        self._is_closed = False
        self._progress_event = asyncio.Event()
        self._activation_listeners: list[Callable[[LeaderEpoch], None]] = []
        self._resignation_listeners: list[Callable[[], None]] = []
        self._leader_change_listeners: list[Callable[[], None]] = []

    # ---- for the controller and the channels to it

    def add_activation_listener(self, listener: Callable[[LeaderEpoch], None]) -> None:
        """Call `listener` with the epoch when this node becomes the active controller, now if it is."""
        self._activation_listeners.append(listener)
        if self.active_epoch is not None:
            listener(self.active_epoch)

    def add_resignation_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when this node is no longer the active controller."""
        self._resignation_listeners.append(listener)

    def add_leader_change_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when another node, this one, or none is the active controller."""
        self._leader_change_listeners.append(listener)

    @property
    def image(self) -> MetadataImage | None:
        """The image on which the next command is evaluated; None if this node is not the leader."""
        return None if self._active is None else self._active.image

    async def submit(self, command: Command[ReplyT]) -> ReplyT:
        """Return the command's reply when its records are committed and published."""
        self._require_active()
        submitted = SubmittedCommand(command, asyncio.get_running_loop().create_future())
        await self._pending_commands.put(submitted)
        self._schedule()
        try:
            reply: ReplyT = await asyncio.shield(submitted.reply_future)
        finally:
            del submitted  # The traceback of its error refers to this frame: a reference cycle.
        return reply

    def upgrade_voters(self, *, validate_only: bool) -> None:
        """Make the static voters dynamic (KIP-853), or only check whether that is possible.

        Only within a command. The command must write a record too, so that its reply waits for the commit.
        Errors: KafkaError INVALID_UPDATE_VERSION, NOT_CONTROLLER.
        """
        if self._active is None:
            raise self._not_controller_error()
        epoch = self._active.epoch
        reason = self._quorum.upgrade_rejection(epoch)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"the voters cannot become dynamic: {reason}")
        if not validate_only:
            self._quorum.upgrade_voters(epoch)

    # ---- for the metadata store

    @property
    def is_log_leader(self) -> bool:
        """Whether this node appends to the log, so that it does not replay it."""
        return self._active is not None

    def can_activate(self, position: Offset) -> bool:
        """Return whether this node was elected, and has applied all records before its election."""
        return self._claim is not None and position >= self._claim[1] and not self._is_closed

    def on_leader_changed(self, epoch: LeaderEpoch, leader: BrokerId | None) -> None:
        """Apply the election of `leader`; None if there is no leader."""
        if leader == self._node_id and self._active is not None and self._active.epoch == epoch:
            return
        self.leader_changes += leader is not None
        self.leader, self.epoch = leader, epoch
        self._resign(KafkaError(ErrorCode.NOT_CONTROLLER, f"the leader of epoch {epoch} is {leader}"))
        if leader == self._node_id:
            self._claim = (epoch, self._log_end_offset())
        for listener in self._leader_change_listeners:
            listener()

    def activate(self, loader: MetadataLoader) -> None:
        """Begin to perform commands, within a callback of the quorum; `loader` is at the end of the log."""
        claim, self._claim = self._claim, None
        if claim is None or self._is_closed:
            return
        epoch, _ = claim
        active = ActiveController(epoch, loader, self._log_end_offset, self._quorum.append)
        try:
            if active.is_transaction_open:
                active.write([AbortTransactionRecord(reason="the controller that began it has resigned")])
            if not active.image.features:
                active.write(self._first_records())
        except KafkaError as error:
            logger.warning("Cannot become the active controller of epoch %d: %s; resigning", epoch, error)
            self._quorum.resign()
            return
        self._active = active
        if active.is_idle:
            self._announce(epoch)

    def has_committed(self, offset: Offset) -> bool:
        """Return whether a batch of this node is committed at `offset`, and not taken yet."""
        return self._active is not None and self._active.has_committed(offset)

    def take_committed(self, offset: Offset, bytes_max: int) -> Sequence[WrittenBatch]:
        """Return the next batches of this node that are committed; see `ActiveController`."""
        return () if self._active is None else self._active.take_committed(offset, bytes_max)

    def on_published(self) -> None:
        """Announce this node as the active controller when its first records are published."""
        if self._active is not None and self.active_epoch is None:
            self._announce(self._active.epoch)
        self._progress_event.set()

    async def finish(self) -> None:
        """Wait until every submitted command has its reply."""
        while self._active is not None and not (self._is_idle and self._active.is_idle):
            self._progress_event.clear()
            await self._progress_event.wait()

    def close(self) -> None:
        """Accept no more commands; waiting commands fail."""
        self._resign(KafkaError(ErrorCode.NOT_CONTROLLER, "the node is stopping"))
        self._is_closed = True

    def fail(self, error: BaseException) -> None:
        """Accept no more commands because the log cannot be written; waiting commands fail."""
        text = f"the metadata log cannot be written: {error}"
        self.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        self._is_closed = True
        self._resign(self.failure)

    # ---- commands

    @property
    def _is_idle(self) -> bool:
        return self._running_command is None and self._pending_commands.empty()

    def _require_active(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.active_epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} is not the active controller")

    def _schedule(self) -> None:
        """Perform the waiting commands in the next callback of the quorum."""
        if self._is_closed:
            # The node was stopped while this command waited for room in the queue.
            self._fail_pending(self._not_controller_error())
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._quorum.schedule(self._perform_pending)

    def _perform_pending(self) -> None:
        """Perform the waiting commands, within a callback of the quorum."""
        self._is_scheduled = False
        while self._running_command is None and not self._pending_commands.empty():
            submitted = self._pending_commands.get_nowait()
            if self._active is None:
                submitted.fail(self._not_controller_error())
            else:
                self._perform(self._active, submitted)
        self._progress_event.set()

    def _perform(self, active: ActiveController, submitted: SubmittedCommand) -> None:
        """Perform a command. A small one is complete when this returns."""

        def on_completed(prepared: PreparedCommand) -> None:
            if self._running_command is None:
                active.complete(submitted, prepared)
            else:
                self._quorum.schedule(lambda: self._end_running(submitted, active.complete, prepared))

        def on_failed(error: Exception) -> None:
            if self._running_command is None:
                active.fail(submitted, error)
            else:
                self._quorum.schedule(lambda: self._end_running(submitted, active.fail, error))

        work = self._slices.start(active.perform(submitted), on_completed, on_failed)
        if work is not None:
            self._running_command = (submitted, work)

    def _end_running(
        self,
        submitted: SubmittedCommand,
        end: Callable[[SubmittedCommand, OutcomeT], None],
        outcome: OutcomeT,
    ) -> None:
        """Complete a command whose steps have ended, unless this node has lost the role."""
        if self._running_command is not None and self._running_command[0] is submitted:
            self._running_command = None
            end(submitted, outcome)
            self._perform_pending()

    def _announce(self, epoch: LeaderEpoch) -> None:
        """Notify the listeners that this node is the active controller."""
        self.active_epoch = epoch
        logger.info("Node %d is the active controller of epoch %d", self._node_id, epoch)
        for on_activation in self._activation_listeners:
            on_activation(epoch)
        for on_leader_change in self._leader_change_listeners:
            on_leader_change()
        self._progress_event.set()

    def _resign(self, error: KafkaError) -> None:
        """End the role or the claim, if this node has one; commands that are not committed get `error`."""
        self._claim = None
        active, self._active = self._active, None
        was_announced, self.active_epoch = self.active_epoch is not None, None
        if active is not None:
            active.fail_all(error)
        if self._running_command is not None:
            (submitted, work), self._running_command = self._running_command, None
            work.cancel()
            submitted.fail(KafkaError(error.code, str(error)))
        self._fail_pending(error)
        if was_announced:
            for listener in self._resignation_listeners:
                listener()
        self._progress_event.set()

    def _fail_pending(self, error: KafkaError) -> None:
        while not self._pending_commands.empty():
            self._pending_commands.get_nowait().fail(KafkaError(error.code, str(error)))

    def _not_controller_error(self) -> KafkaError:
        return self.failure or KafkaError(
            ErrorCode.NOT_CONTROLLER, "this node is no longer the active controller"
        )
