"""The records that the active controller has written, and which of them are committed.

A command is evaluated on the image with the records of all earlier commands applied, committed or not. Its
records are appended as one batch, or as several if they exceed the batch size and need not be atomic. They
are encoded and applied to a copy of the image in steps, and then appended at once. The reply is sent when all
of them are committed. When this node resigns, the object is discarded; the records that the next leader
commits are replayed from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.broker.metadata.batches import encode_records
from tidelog.cluster.controller.result import MAX_RECORDS_PER_COMMAND, ControllerResult
from tidelog.cluster.features import metadata_version
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.metadata_loader import MetadataLoader, PublishedChange
from tidelog.cluster.quorum.effects import RecordsAppended
from tidelog.cluster.record_versions import supported_record
from tidelog.protocol.batch import BATCH_OVERHEAD
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps, map_items, run_steps

logger = logging.getLogger(__name__)

# The size of a record without its value: six varints, mostly of one byte.
_RECORD_OVERHEAD: Final = 7

Command: TypeAlias = Callable[[MetadataImage], ControllerResult[Any] | Steps[ControllerResult[Any]]]
Appender: TypeAlias = Callable[[list[bytes], LeaderEpoch], RecordsAppended]


@dataclass(slots=True)
class SubmittedCommand:
    """A command with the future of its reply."""

    command: Command
    reply_future: asyncio.Future[Any]
    reply: Any = None

    def complete(self) -> None:
        """Complete the future with the reply, if the caller still waits."""
        if not self.reply_future.done():
            self.reply_future.set_result(self.reply)

    def fail(self, error: Exception) -> None:
        """Complete the future with an error, if the caller still waits."""
        if not self.reply_future.done():
            if isinstance(error, KafkaError):
                # The traceback of a refusal is not needed. Its frames refer to this command, and the command
                # to the error: a reference cycle, which would keep the whole request.
                error = error.with_traceback(None)
            self.reply_future.set_exception(error)
            # A cancelled caller does not retrieve the error.
            self.reply_future.exception()


class WrittenBatch(NamedTuple):
    """A batch that is not committed yet: its end, its changes of the metadata, and its command if any."""

    end_offset: Offset
    steps: Sequence[PublishedChange]
    size_bytes: int
    submitted: SubmittedCommand | None


class PreparedBatch(NamedTuple):
    """A batch to append: its encoded records, its changes of the metadata, and the loader after them."""

    values: list[bytes]
    steps: Sequence[PublishedChange]
    loader: MetadataLoader


class PreparedCommand(NamedTuple):
    """The result of a command, with the batches that follow the end of the log at `base_offset`."""

    result: ControllerResult[Any]
    base_offset: Offset
    batches: Sequence[PreparedBatch]


class ActiveController:
    """This node as the leader of the metadata log in one epoch; called only in the driver's task.

    An open transaction of a former leader must be aborted before anything else is written.
    """

    def __init__(
        self,
        epoch: LeaderEpoch,
        loader: MetadataLoader,
        end_offset: Callable[[], Offset],
        append: Appender,
    ) -> None:
        """`loader` is at the end of the log; this object owns it from now on."""
        self.epoch = epoch
        self._loader = loader
        self._end_offset = end_offset
        self._append = append
        self._uncommitted_batches: deque[WrittenBatch] = deque()
        """Also the committed ones that `take_committed` has not returned yet."""

    @property
    def image(self) -> MetadataImage:
        """The image on which the next command is evaluated."""
        return self._loader.image

    @property
    def is_transaction_open(self) -> bool:
        """Whether a former leader began a transaction and did not end it."""
        return self._loader.is_transaction_open

    @property
    def is_idle(self) -> bool:
        """Whether all written records are committed and taken."""
        return not self._uncommitted_batches

    def perform(self, submitted: SubmittedCommand) -> Steps[PreparedCommand]:
        """Perform a command, and prepare its records.

        The caller runs the steps and calls `complete` or `fail`. No other command may be performed before
        that, so that the image that the steps read does not change.
        """
        self._skip_control_records()
        result = submitted.command(self._loader.image)
        if isinstance(result, Generator):
            result = yield from result
        return (yield from self._prepare(result))

    def complete(self, submitted: SubmittedCommand, prepared: PreparedCommand) -> None:
        """Append the records of a command."""
        try:
            if prepared.base_offset != self._end_offset():
                # The quorum has appended a control record since the preparation.
                prepared = run_steps(self._prepare(prepared.result))
            submitted.reply = prepared.result.reply
            if prepared.batches:
                *earlier, last = prepared.batches
                for batch in earlier:
                    self._append_batch(batch)
                self._append_batch(last, submitted)
            elif self._uncommitted_batches:
                # The reply may depend on records that are not committed yet.
                self._uncommitted_batches.append(
                    WrittenBatch(self._uncommitted_batches[-1].end_offset, (), 0, submitted)
                )
            else:
                submitted.complete()
        except Exception as error:
            self.fail(submitted, error)

    def fail(self, submitted: SubmittedCommand, error: Exception) -> None:
        """Report the error of a command to its caller. Log an error that is no KafkaError."""
        if not isinstance(error, KafkaError):
            logger.error("A metadata command failed", exc_info=error)
        submitted.fail(error)

    def write(self, records: Sequence[MetadataRecord]) -> None:
        """Append records as one batch, or as several if they are too many and in a transaction.

        Errors: KafkaError, after which nothing has changed.
        """
        is_atomic = len(records) <= MAX_RECORDS_PER_COMMAND
        prepared = run_steps(self._prepare(ControllerResult(tuple(records), None, is_atomic=is_atomic)))
        for batch in prepared.batches:
            self._append_batch(batch)

    def _prepare(self, result: ControllerResult[Any]) -> Steps[PreparedCommand]:
        """Encode the records of `result`, and apply them to a copy of the metadata. Errors: KafkaError."""
        self._skip_control_records()
        base_offset = end_offset = self._end_offset()
        loader = self._loader
        batches = []
        for written in result.batches():
            level = metadata_version(loader.image)
            records = yield from map_items(partial(supported_record, metadata_version=level), written)
            values = yield from encode_records(records, level)
            loader = loader.fork()
            steps = yield from loader.load(records, end_offset, self.epoch)
            batches.append(PreparedBatch(values, steps, loader))
            end_offset += len(records)
        return PreparedCommand(result, base_offset, batches)

    def _append_batch(self, batch: PreparedBatch, submitted: SubmittedCommand | None = None) -> None:
        """Append a batch. Errors: KafkaError, after which nothing has changed."""
        appended = self._append(batch.values, self.epoch)
        self._loader = batch.loader
        size_bytes = BATCH_OVERHEAD + sum(map(len, batch.values)) + _RECORD_OVERHEAD * len(batch.values)
        self._uncommitted_batches.append(
            WrittenBatch(appended.last_offset + 1, batch.steps, size_bytes, submitted)
        )

    def has_committed(self, offset: Offset) -> bool:
        """Return whether a batch is committed at the high watermark `offset`, and not taken yet."""
        return bool(self._uncommitted_batches) and self._uncommitted_batches[0].end_offset <= offset

    def take_committed(self, offset: Offset, bytes_max: int) -> list[WrittenBatch]:
        """Return the next batches that are committed at the high watermark `offset`.

        They have `bytes_max` bytes in total, or are one batch more than fits.
        """
        committed: list[WrittenBatch] = []
        size_bytes = 0
        while size_bytes < bytes_max and self.has_committed(offset):
            committed.append(self._uncommitted_batches.popleft())
            size_bytes += committed[-1].size_bytes
        return committed

    def fail_all(self, error: KafkaError) -> None:
        """Fail the commands that are not committed; they may still be committed later."""
        for written in self._uncommitted_batches:
            if written.submitted is not None:
                written.submitted.fail(KafkaError(error.code, str(error)))
        self._uncommitted_batches.clear()

    def _skip_control_records(self) -> None:
        """Skip the control records that the quorum has appended, so that the image has the right offset."""
        end_offset = self._end_offset()
        if self._loader.image.offset != end_offset - 1 and not self._loader.is_transaction_open:
            self._loader.skip_control_records(end_offset - 1, self.epoch)
