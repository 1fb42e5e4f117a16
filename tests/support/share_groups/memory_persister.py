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
    leader_epoch: int = 0
    states: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Delivery state and delivery count."""

    def write(self, write: StateWrite) -> None:
        """Merge a write into the state: the higher delivery count wins, then the higher state."""
        self.start_offset = write.start_offset
        for batch in write.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                new = (batch.delivery_count, batch.delivery_state)
                old = self.states.get(offset, (0, 0))[::-1]
                self.states[offset] = max(old, new)[::-1]
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
        self.initialized: list[InitialState] = []
        self.read_error = ErrorCode.NONE
        self.write_error = ErrorCode.NONE
        self.may_write = asyncio.Event()
        self.may_write.set()

    def of(self, key: SharePartitionKey) -> StateOfOffsets:
        """Return the state of a share partition."""
        return self.stored.setdefault(key, StateOfOffsets(self.start_offset))

    async def initialize(self, states: Sequence[InitialState]) -> list[StateResult]:
        if self.write_error:
            return [StateResult(self.write_error) for _ in states]
        for state in states:
            self.initialized.append(state)
            self.stored[state.share_partition] = StateOfOffsets(state.start_offset)
        return [StateResult() for _ in states]

    async def read(self, reads: Sequence[StateRead]) -> list[StoredState]:
        self.reads += reads
        if self.read_error:
            return [StoredState(error_code=self.read_error, error_message="no state")]
        for read in reads:
            state = self.of(read.share_partition)
            state.leader_epoch = max(state.leader_epoch, read.leader_epoch)
        return [self.of(read.share_partition).read() for read in reads]

    async def write(self, writes: Sequence[StateWrite]) -> list[StateResult]:
        await self.may_write.wait()
        self.writes += writes
        if not self.write_error:
            for write in writes:
                self.of(write.share_partition).write(write)
        return [StateResult(self.write_error) for _ in writes]

    async def delete(self, share_partitions: Sequence[SharePartitionKey]) -> list[StateResult]:
        for share_partition in share_partitions:
            self.stored.pop(share_partition, None)
        return [StateResult() for _ in share_partitions]

    async def read_summary(self, reads: Sequence[StateRead]) -> list[StateSummary]:
        states = [self.of(read.share_partition) for read in reads]
        return [
            StateSummary(start_offset=each.start_offset, leader_epoch=each.leader_epoch) for each in states
        ]
