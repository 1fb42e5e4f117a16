"""A ListOffsets request some of whose points in time are being looked up in remote storage.

It is answered once every look-up has ended, at the latest after the request's own timeout (version 10 on)
or remote.list.offsets.request.timeout.ms: what is open by then is REQUEST_TIMED_OUT.

Source: KIP-1075; DelayedRemoteListOffsets of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.log.partition_log import RecordPlace

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RemoteLookUp:
    """One partition's look-up: `finish` turns what remote storage said into the answer, KafkaError too."""

    outcome: asyncio.Future[RecordPlace | None]
    check: Callable[[], object]
    """Raises KafkaError when the partition is here no more."""
    finish: Callable[[RecordPlace | None], RecordPlace]
    result: RecordPlace | ErrorCode = ErrorCode.REQUEST_TIMED_OUT
    is_open: bool = True

    def look_again(self) -> bool:
        """Take in what is known by now; True when nothing is left to wait for."""
        if self.is_open:
            try:
                self.check()
                if self.outcome.done():
                    self._close(self.finish(self.outcome.result()))
            except KafkaError as error:
                self._close(error.code)
            except asyncio.CancelledError:
                self._close(ErrorCode.UNKNOWN_SERVER_ERROR)
            except Exception as error:
                logger.error("look-up by timestamp in remote storage failed: %r", error)
                self._close(ErrorCode.UNKNOWN_SERVER_ERROR)
        return not self.is_open

    def _close(self, result: RecordPlace | ErrorCode) -> None:
        self.result, self.is_open = result, False
        self.outcome.cancel()


class DelayedRemoteListOffsets(DelayedOperation):
    """Complete when every look-up is done or pointless, at the latest after the delay."""

    def __init__(
        self, delay_ms: int, look_ups: Sequence[RemoteLookUp], on_answer: Callable[[], None]
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(look_ups))
        self._look_ups = look_ups
        self._on_answer: Callable[[], None] | None = on_answer
        for look_up in look_ups:
            look_up.outcome.add_done_callback(self._on_look_up_done)

    def _on_look_up_done(self, outcome: asyncio.Future[RecordPlace | None]) -> None:
        if not outcome.cancelled():
            outcome.exception()  # seen: nobody may ask for it, when the answer has been given already
        if not self.completed:
            self.try_complete()

    def try_complete(self) -> bool:
        """Answer if no look-up is open any more."""
        left = [look_up for look_up in self._look_ups if not look_up.look_again()]
        return not left and self.force_complete()

    def on_complete(self) -> None:
        """Answer with what is known."""
        assert self._on_answer is not None
        self._on_answer()

    def release(self) -> None:
        """Stop the look-ups that have not ended; drop them and the callback."""
        for look_up in self._look_ups:
            look_up.outcome.cancel()
        self._look_ups = ()
        self._on_answer = None
