"""A persister in memory, whose writes a test can delay or let fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    ShareStateBatch,
    StateRead,
    StateResult,
    StateSummary,
    StateWrite,
    StoredState,
)
from tidelog.protocol.errors import ErrorCode


@dataclass
class StateOfOffsets:
    """A stored state, with one entry for each offset."""

    start_offset: int = 0
    states: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Delivery state and delivery count."""

    def write(self, write: StateWrite) -> None:
        """Merge a write into the state."""
        self.start_offset = write.start_offset
        for batch in write.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.states[offset] = (batch.delivery_state, batch.delivery_count)
        self.states = {key: value for key, value in self.states.items() if key >= self.start_offset}

    def read(self) -> StoredState:
        """Return the state as batches."""
        batches: list[ShareStateBatch] = []
        for offset, state in sorted(self.states.items()):
            last = batches[-1] if batches else None
            if last is not None and last == ShareStateBatch(last.first_offset, offset - 1, *state):
                batches[-1] = ShareStateBatch(last.first_offset, offset, *state)
            else:
                batches.append(ShareStateBatch(offset, offset, *state))
        return StoredState(state_epoch=1, start_offset=self.start_offset, batches=tuple(batches))


class MemoryPersister:
    """Implements SharePersister; unknown states begin at `start_offset`."""

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.stored: dict[SharePartitionKey, StateOfOffsets] = {}
        self.writes: list[StateWrite] = []
        self.reads: list[StateRead] = []
        self.read_error = ErrorCode.NONE
        self.write_error = ErrorCode.NONE
        self.may_write = asyncio.Event()
        self.may_write.set()

    def of(self, key: SharePartitionKey) -> StateOfOffsets:
        """Return the state of a share partition."""
        return self.stored.setdefault(key, StateOfOffsets(self.start_offset))

    async def initialize(self, states: Sequence[InitialState]) -> list[StateResult]:
        raise NotImplementedError

    async def read(self, reads: Sequence[StateRead]) -> list[StoredState]:
        self.reads += reads
        if self.read_error:
            return [StoredState(error_code=self.read_error, error_message="no state")]
        return [self.of(read.share_partition).read() for read in reads]

    async def write(self, writes: Sequence[StateWrite]) -> list[StateResult]:
        await self.may_write.wait()
        self.writes += writes
        if not self.write_error:
            for write in writes:
                self.of(write.share_partition).write(write)
        return [StateResult(self.write_error) for _ in writes]

    async def delete(self, share_partitions: Sequence[SharePartitionKey]) -> list[StateResult]:
        raise NotImplementedError

    async def read_summary(self, reads: Sequence[StateRead]) -> list[StateSummary]:
        raise NotImplementedError
