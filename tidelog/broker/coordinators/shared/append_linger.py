"""Collects the records of a partition's commands, and appends them as one batch when the linger has passed.

    linger_ms -1    append in the next iteration of the event loop: the batch has the commands of all requests
                    that this iteration has received. A command that is alone waits for nothing
    linger_ms  0    append each command at once
    linger_ms  n    append n ms after the first command

A batch that is full is appended at once.

Source: CoordinatorRuntime of Apache Kafka 4.3, whose adaptive linger appends when the commands that are
queued for the partition have run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple

from tidelog.broker.coordinators.shared.append_batch import (
    AppendBatch,
    CompletionCallback,
    bytes_in_batch_max,
)
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.timer import Timer, TimerHandle
from tidelog.protocol.errors import ErrorCode, KafkaError

ADAPTIVE_LINGER: Final = -1
NO_LINGER: Final = 0


class AppendTimes(NamedTuple):
    """How long a batch collects records, and how long its commands wait for its commit after that."""

    linger_ms: int
    commit_timeout_ms: int


class AppendLinger:
    """The batch of one partition that collects records now, if there is one.

    `bytes_max` returns the largest batch that the log accepts, or raises KafkaError. `append` appends a batch
    and completes it, now or later. A batch that is not complete after the commit timeout is completed with
    REQUEST_TIMED_OUT.
    """

    def __init__(
        self,
        times: AppendTimes,
        timer: Timer,
        bytes_max: Callable[[], int],
        append: Callable[[AppendBatch], None],
    ) -> None:
        self._times = times
        self._timer = timer
        self._bytes_max = bytes_max
        self._append = append
        self._batch: AppendBatch | None = None
        self._linger_end: TimerHandle | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no records wait for their append."""
        return self._batch is None

    def has_key(self, key: Hashable) -> bool:
        """Return whether records of a command with `key` wait for their append."""
        return self._batch is not None and key in self._batch.keys

    def add(
        self,
        records: Sequence[Any],
        encoded: EncodedRecords,
        on_completed: CompletionCallback,
        key: Hashable | None = None,
    ) -> None:
        """Add the records of one command; `on_completed` is called with the result of their batch."""
        size_bytes = bytes_in_batch_max(encoded)
        if self._batch is not None and not self._batch.has_room_for(size_bytes):
            self.flush()
        batch = self._batch
        if batch is None:
            try:
                batch = self._batch = AppendBatch(self._bytes_max())
            except KafkaError as error:
                on_completed(error.code)
                return
            self._begin_linger(batch)
        batch.add(records, encoded, size_bytes, on_completed)
        if key is not None:
            batch.keys.add(key)
        if batch.is_full or self._times.linger_ms == NO_LINGER:
            self.flush()

    def flush(self) -> None:
        """Append the records that have been collected."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        self._end_linger()
        try:
            self._append(batch)
        except Exception:
            batch.complete(ErrorCode.UNKNOWN_SERVER_ERROR)
            raise
        if not batch.is_complete:
            timeout_ms = self._times.commit_timeout_ms
            batch.limit_time(
                self._timer.schedule(timeout_ms, lambda: batch.complete(ErrorCode.REQUEST_TIMED_OUT))
            )

    def fail(self, error: ErrorCode) -> None:
        """Append nothing; all commands that wait get `error`."""
        batch, self._batch = self._batch, None
        self._end_linger()
        if batch is not None:
            batch.complete(error)

    def _begin_linger(self, batch: AppendBatch) -> None:
        linger_ms = self._times.linger_ms
        if linger_ms == ADAPTIVE_LINGER:
            asyncio.get_running_loop().call_soon(self._flush_if_current, batch)
        elif linger_ms > 0:
            self._linger_end = self._timer.schedule(linger_ms, self.flush)

    def _end_linger(self) -> None:
        if self._linger_end is not None:
            self._linger_end.cancel()
            self._linger_end = None

    def _flush_if_current(self, batch: AppendBatch) -> None:
        """Append `batch`, unless that has happened because it was full or another command required it."""
        if self._batch is batch:
            self.flush()
