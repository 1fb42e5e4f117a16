"""The states of share partitions in memory, without a share coordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    StateRead,
    StateResult,
    StateSummary,
    StateWrite,
    StoredState,
)
from tidelog.protocol.errors import ErrorCode

R = TypeVar("R", StateResult, StoredState, StateSummary)


class MemoryPersister:
    """Stores start offsets and state epochs; every call fails with `error` for partitions in `failing`."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, StateSummary] = {}
        self.failing: set[SharePartitionKey] = set()
        self.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.calls: list[str] = []

    async def initialize(self, states: Sequence[InitialState]) -> list[StateResult]:
        def initialize(state: InitialState) -> StateResult:
            count = -1 if state.start_offset == -1 else 0
            self.states[state.share_partition] = StateSummary(
                state_epoch=state.state_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=count,
            )
            return StateResult()

        self.calls.append("initialize")
        return [
            self._result(state.share_partition, StateResult, partial(initialize, state)) for state in states
        ]

    async def read(self, reads: Sequence[StateRead]) -> list[StoredState]:
        raise AssertionError("groups do not read states")

    async def write(self, writes: Sequence[StateWrite]) -> list[StateResult]:
        raise AssertionError("groups do not write states")

    async def delete(self, share_partitions: Sequence[SharePartitionKey]) -> list[StateResult]:
        def delete(key: SharePartitionKey) -> StateResult:
            self.states.pop(key, None)
            return StateResult()

        self.calls.append("delete")
        return [self._result(key, StateResult, partial(delete, key)) for key in share_partitions]

    async def read_summary(self, reads: Sequence[StateRead]) -> list[StateSummary]:
        def summary(read: StateRead) -> StateSummary:
            return self.states.get(read.share_partition, StateSummary(start_offset=-1))

        return [self._result(read.share_partition, StateSummary, partial(summary, read)) for read in reads]

    def _result(self, key: SharePartitionKey, result_type: type[R], call: Callable[[], R]) -> R:
        if key in self.failing:
            return result_type(error_code=self.error, error_message="defined by the test")
        return call()
