"""Stores the changes of one share partition, one write at a time.

Changes that are made while a write is in progress are stored together by the next write. Changes of the same
records are stored one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from tidelog.broker.coordinators.share.persister import SharePersister, StateWrite
from tidelog.broker.share_partitions.share_partition import SharePartition, Status
from tidelog.broker.share_partitions.state_change import StateChange
from tidelog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

StartTask = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine as a task of the node."""


class StateWriter:
    """Owns the changes of a share partition that are not stored yet.

    `on_stored` is called after each write, with the error code of the write.
    """

    def __init__(
        self,
        partition: SharePartition,
        persister: SharePersister,
        start_task: StartTask,
        on_stored: Callable[[ErrorCode], None],
    ) -> None:
        self._partition = partition
        self._persister = persister
        self._start_task = start_task
        self._on_stored = on_stored
        self._waiting: deque[tuple[StateChange, asyncio.Future[ErrorCode]]] = deque()
        self._is_writing = False
        self._pending_count = 0

    @property
    def has_pending_changes(self) -> bool:
        """Whether any change is neither stored nor rolled back."""
        return self._pending_count > 0

    def store(self, change: StateChange) -> asyncio.Future[ErrorCode]:
        """Store a change, and commit it or roll it back; return the result as a future."""
        stored: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        if not change:
            stored.set_result(ErrorCode.NONE)
            return stored
        self._waiting.append((change, stored))
        self._pending_count += 1
        if not self._is_writing:
            self._is_writing = True
            self._start_task(self._write_all())
        return stored

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                changes = self._next_changes()
                code = ErrorCode.UNKNOWN_SERVER_ERROR
                try:
                    code = await self._write([change for change, _ in changes])
                finally:
                    self._complete(changes, code)
        finally:
            self._is_writing = False

    def _next_changes(self) -> list[tuple[StateChange, asyncio.Future[ErrorCode]]]:
        """Remove and return the first changes that concern different records."""
        taken = [self._waiting.popleft()]
        while self._waiting:
            change = self._waiting[0][0]
            if any(
                change.first_offset < other.end_offset and other.first_offset < change.end_offset
                for other, _ in taken
            ):
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _write(self, changes: list[StateChange]) -> ErrorCode:
        if self._partition.status is Status.FENCED:
            # Its ranges are dropped: its start offset no longer shows what has been delivered.
            return ErrorCode.FENCED_LEADER_EPOCH
        try:
            (result,) = await self._persister.write((self._write_of(changes),))
        except Exception as error:
            if not isinstance(error, KafkaError):
                logger.exception("Cannot store the state of %s", self._partition.key)
                return ErrorCode.UNKNOWN_SERVER_ERROR
            return error.code
        return result.error_code

    def _write_of(self, changes: list[StateChange]) -> StateWrite:
        """Return the write that stores all `changes`."""
        writes = [self._partition.write_of(change) for change in changes]
        batches = [batch for write in writes for batch in write.batches]
        batches.sort(key=lambda batch: batch.first_offset)
        return replace(writes[0], batches=tuple(batches))

    def _complete(
        self, changes: list[tuple[StateChange, asyncio.Future[ErrorCode]]], code: ErrorCode
    ) -> None:
        """Commit or roll back. An error ends neither the other changes nor those that wait."""
        self._pending_count -= len(changes)
        for change, stored in changes:
            result = code
            try:
                if code is ErrorCode.NONE:
                    self._partition.commit(change)
                else:
                    self._partition.roll_back(change)
            except Exception:
                logger.exception("Cannot complete a change of %s", self._partition.key)
                result = ErrorCode.UNKNOWN_SERVER_ERROR
            if not stored.done():
                stored.set_result(result)
        try:
            self._on_stored(code)
        except Exception:
            logger.exception("Cannot continue after a change of %s", self._partition.key)
