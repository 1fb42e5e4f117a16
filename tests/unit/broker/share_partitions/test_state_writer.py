"""The changes of a share partition are stored one after the other, also after an error of one of them."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tests.support.share_groups.locks import ManualLockTimers
from tests.support.share_groups.memory_persister import MemoryPersister
from tidelog.broker.coordinators.share.persister import SharePartitionKey, StateWrite, StoredState
from tidelog.broker.share_partitions.acknowledgement import AcknowledgedBatch
from tidelog.broker.share_partitions.acquisition import AcquireRequest, DeliveryLimits, FetchedBatch
from tidelog.broker.share_partitions.record_states import RecordState
from tidelog.broker.share_partitions.share_partition import SharePartition
from tidelog.broker.share_partitions.state_change import StateChange
from tidelog.broker.share_partitions.state_writer import StateWriter
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.steps import run_steps


class FailingSharePartition(SharePartition):
    """Fails in the first call of the method named by `failing`."""

    failing: str | None = None

    def write_of(self, change: StateChange) -> StateWrite:
        self._fail("write_of")
        return super().write_of(change)

    def commit(self, change: StateChange) -> None:
        self._fail("commit")
        super().commit(change)

    def _fail(self, method: str) -> None:
        if self.failing == method:
            self.failing = None
            raise AssertionError(method)


@pytest.mark.parametrize("failing", ["write_of", "commit"])
async def test_changes_that_wait_are_stored_after_an_error_of_the_change_before_them(failing: str) -> None:
    limits = DeliveryLimits(delivery_count_max=5, records_in_flight_max=100, lock_duration_ms=1000)
    partition = FailingSharePartition(SharePartitionKey("g", UUID(int=1), 0), 3, limits, ManualLockTimers())
    partition.load(StoredState(), 0)
    request = AcquireRequest(member_id="m", max_records=10, batch_size=10)
    partition.acquire(request, 0, [FetchedBatch(0, 10)])
    persister = MemoryPersister()
    writer = StateWriter(partition, persister, asyncio.ensure_future, lambda code: None)
    partition.failing = failing
    # The second change concerns the same records, so that it is not part of the first write.
    acknowledged = [AcknowledgedBatch(4, 5, (1,))]
    first = writer.store(run_steps(partition.acknowledge("m", acknowledged)))
    overlapping = StateChange()
    overlapping.add(5, 6, RecordState.AVAILABLE, 1)
    second = writer.store(overlapping)
    assert await first == ErrorCode.UNKNOWN_SERVER_ERROR
    assert await second == ErrorCode.NONE
    assert not writer.has_pending_changes
