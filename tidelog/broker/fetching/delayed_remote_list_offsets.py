"""A ListOffsets request that waits for timestamps to be looked up in remote storage.

The response is sent when every look-up has ended, at the latest after the request's timeout (from version 10
on) or remote.list.offsets.request.timeout.ms. Look-ups that have not ended by then result in
REQUEST_TIMED_OUT.

Source: KIP-1075; DelayedRemoteListOffsets of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tidelog.base.dataclass import dataclass
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.log.partition_log import RecordPlace

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RemoteLookUp:
    """The look-up of one partition.

    `finish` converts the remote result to the partition's result, or raises KafkaError.
    """

    outcome: asyncio.Future[RecordPlace | None]
    check: Callable[[], object]
    """Raises KafkaError if this node can no longer serve the partition."""
    finish: Callable[[RecordPlace | None], RecordPlace]
    result: RecordPlace | ErrorCode = ErrorCode.REQUEST_TIMED_OUT
    is_open: bool = True

    def check_outcome(self) -> bool:
        """Update the result; return whether the look-up has ended."""
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
                logger.error("Cannot look up a timestamp in remote storage: %r", error)
                self._close(ErrorCode.UNKNOWN_SERVER_ERROR)
        return not self.is_open

    def _close(self, result: RecordPlace | ErrorCode) -> None:
        self.result, self.is_open = result, False
        self.outcome.cancel()


class DelayedRemoteListOffsets(DelayedOperation):
    """Completes when every look-up has ended or has an error, or after the delay."""

    def __init__(self, delay_ms: int, look_ups: Sequence[RemoteLookUp], on_ready: Callable[[], None]) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(look_ups))
        self._look_ups = look_ups
        self._on_ready: Callable[[], None] | None = on_ready
        for look_up in look_ups:
            look_up.outcome.add_done_callback(self._on_look_up_done)

    def _on_look_up_done(self, outcome: asyncio.Future[RecordPlace | None]) -> None:
        if not outcome.cancelled():
            # Retrieved here, because after the response no other code may retrieve it.
            outcome.exception()
        if not self.is_completed:
            self.try_complete()

    def try_complete(self) -> bool:
        """Complete if no look-up is open."""
        still_open = [look_up for look_up in self._look_ups if not look_up.check_outcome()]
        return not still_open and self.force_complete()

    def on_complete(self) -> None:
        """Send the response, by `on_ready`."""
        assert self._on_ready is not None
        self._on_ready()

    def release(self) -> None:
        """Cancel the look-ups that have not ended; drop them and the callback."""
        for look_up in self._look_ups:
            look_up.outcome.cancel()
        self._look_ups = ()
        self._on_ready = None
