"""The records that the active controller has written, and which of them are committed.

Commands see the image that earlier commands lead to, committed or not. The records of a command are one batch
of the log, or several if they are too many and need not take effect together. The reply is sent when all of
them are committed. When this node resigns, the object is dropped; what the next leader has committed of it is
replayed from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from tidelog.broker.metadata.batches import encode_records
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.metadata_loader import MetadataLoader, Published
from tidelog.cluster.quorum.effects import RecordsAppended
from tidelog.protocol.batch import BATCH_OVERHEAD
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps

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
            self.reply_future.set_exception(error)
            # A cancelled caller does not retrieve the error.
            self.reply_future.exception()


class WrittenBatch(NamedTuple):
    """A batch that is not committed yet: its end, its changes of the metadata, and its command if any."""

    end_offset: Offset
    steps: Sequence[Published]
    size_bytes: int
    submitted: SubmittedCommand | None


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
        self._written: deque[WrittenBatch] = deque()

    @property
    def image(self) -> MetadataImage:
        """The image that the next command sees."""
        return self._loader.image

    @property
    def transaction_open(self) -> bool:
        """Whether a former leader began a transaction and did not end it."""
        return self._loader.transaction_open

    @property
    def is_idle(self) -> bool:
        """Whether everything that was written is committed."""
        return not self._written

    def perform(self, submitted: SubmittedCommand) -> Steps[ControllerResult[Any]] | None:
        """Perform a command; an error is reported to its caller only.

        Return its steps if it is divided: the caller runs them and calls `complete` or `fail`. No other
        command may be performed before that, so that the image that the steps read does not change.
        """
        try:
            self._catch_up()
            result = submitted.command(self._loader.image)
        except Exception as error:
            self.fail(submitted, error)
            return None
        if isinstance(result, Generator):
            return result
        self.complete(submitted, result)
        return None

    def complete(self, submitted: SubmittedCommand, result: ControllerResult[Any]) -> None:
        """Write the records of a command."""
        try:
            submitted.reply = result.reply
            if result.records:
                *earlier, last = result.batches()
                for batch in earlier:
                    self.write(batch)
                self.write(last, submitted)
            elif self._written:
                # The reply may depend on records that are not committed yet.
                self._written.append(WrittenBatch(self._written[-1].end_offset, (), 0, submitted))
            else:
                submitted.complete()
        except Exception as error:
            self.fail(submitted, error)

    def fail(self, submitted: SubmittedCommand, error: Exception) -> None:
        """Report the error of a command to its caller. Log an error that is no KafkaError."""
        if not isinstance(error, KafkaError):
            logger.error("a metadata command failed", exc_info=error)
        submitted.fail(error)

    def write(self, records: Sequence[MetadataRecord], submitted: SubmittedCommand | None = None) -> None:
        """Append records as one batch. Errors: KafkaError, after which nothing has changed."""
        self._catch_up()
        values = encode_records(records)
        before = self._loader.image
        try:
            steps = self._loader.load(records, self._end_offset(), self.epoch)
            appended = self._append(values, self.epoch)
        except Exception:
            self._loader = MetadataLoader(before)
            raise
        size_bytes = BATCH_OVERHEAD + sum(map(len, values)) + _RECORD_OVERHEAD * len(values)
        self._written.append(WrittenBatch(appended.last_offset + 1, steps, size_bytes, submitted))

    def take_committed(self, offset: Offset) -> list[WrittenBatch]:
        """Return the batches that are committed at the high watermark `offset`."""
        committed: list[WrittenBatch] = []
        while self._written and self._written[0].end_offset <= offset:
            committed.append(self._written.popleft())
        return committed

    def fail_all(self, error: KafkaError) -> None:
        """Fail the commands that are not committed; whether they will be is unknown."""
        for written in self._written:
            if written.submitted is not None:
                written.submitted.fail(KafkaError(error.code, str(error)))
        self._written.clear()

    def _catch_up(self) -> None:
        """Skip the control records that the quorum has appended, so that the image has the right offset."""
        end_offset = self._end_offset()
        if self._loader.image.offset != end_offset - 1 and not self._loader.transaction_open:
            self._loader.skip_control_records(end_offset - 1, self.epoch)
