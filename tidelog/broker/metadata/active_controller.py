"""What the active controller has written and what of it is committed.

Commands see the image that their predecessors lead to, committed or not. Each command's records are
one batch of the log, or several when they are too many and need not take effect at once; its reply
waits until they are committed. When this node stops leading, the whole object is dropped: what was
committed of it comes back from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
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

logger = logging.getLogger(__name__)

# What a record needs besides its value: six varints, mostly of one byte.
_RECORD_OVERHEAD: Final = 7

Command: TypeAlias = Callable[[MetadataImage], ControllerResult[Any]]
Appender: TypeAlias = Callable[[list[bytes], LeaderEpoch], RecordsAppended]


@dataclass(slots=True)
class Submitted:
    """A command and whoever waits for its reply."""

    command: Command
    done: asyncio.Future[Any]
    reply: Any = None

    def answer(self) -> None:
        """Give the reply to the caller, if it still waits."""
        if not self.done.done():
            self.done.set_result(self.reply)

    def fail(self, error: Exception) -> None:
        """Tell the caller that nothing comes of it."""
        if not self.done.done():
            self.done.set_exception(error)
            # The caller may be gone; its error is then nobody's.
            self.done.exception()


class Written(NamedTuple):
    """A batch that waits to be committed: up to `end_offset`, and the steps of the metadata in it."""

    end_offset: Offset
    steps: Sequence[Published]
    size_bytes: int
    submitted: Submitted | None


class ActiveController:
    """This node's leadership of the metadata log in one epoch; its methods are called in a driver's turn.

    An open transaction of a former leader has to be aborted before anything else is written.
    """

    def __init__(
        self,
        epoch: LeaderEpoch,
        loader: MetadataLoader,
        end_offset: Callable[[], Offset],
        append: Appender,
    ) -> None:
        """`loader` stands where the log ends; it is written to from now on."""
        self.epoch = epoch
        self._loader = loader
        self._end_offset = end_offset
        self._append = append
        self._written: deque[Written] = deque()

    @property
    def image(self) -> MetadataImage:
        """What the next command sees."""
        return self._loader.image

    @property
    def transaction_open(self) -> bool:
        """Whether a former leader began a transaction and did not end it."""
        return self._loader.transaction_open

    @property
    def is_idle(self) -> bool:
        """Whether everything that was written is committed."""
        return not self._written

    def perform(self, submitted: Submitted) -> None:
        """Carry a command out; whatever it raises is for its caller alone."""
        try:
            self._catch_up()
            result = submitted.command(self._loader.image)
            submitted.reply = result.reply
            if result.records:
                *earlier, last = result.batches()
                for batch in earlier:
                    self.write(batch)
                self.write(last, submitted)
            elif self._written:
                # It may have been decided by what is not committed yet.
                self._written.append(Written(self._written[-1].end_offset, (), 0, submitted))
            else:
                submitted.answer()
        except KafkaError as error:
            submitted.fail(error)
        except Exception as error:
            logger.exception("a metadata command failed")
            submitted.fail(error)

    def write(self, records: Sequence[MetadataRecord], submitted: Submitted | None = None) -> None:
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
        self._written.append(Written(appended.last_offset + 1, steps, size_bytes, submitted))

    def committed(self, offset: Offset) -> list[Written]:
        """What is committed now that the log is up to `offset`."""
        found: list[Written] = []
        while self._written and self._written[0].end_offset <= offset:
            found.append(self._written.popleft())
        return found

    def fail_all(self, error: KafkaError) -> None:
        """Nobody knows what becomes of what is not committed."""
        for written in self._written:
            if written.submitted is not None:
                written.submitted.fail(KafkaError(error.code, str(error)))
        self._written.clear()

    def _catch_up(self) -> None:
        """Count what the quorum has appended itself (changes of voters), so that offsets are right."""
        end_offset = self._end_offset()
        if self._loader.image.offset != end_offset - 1 and not self._loader.transaction_open:
            self._loader.skip_control_records(end_offset - 1, self.epoch)
