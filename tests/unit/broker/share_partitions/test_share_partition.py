"""A share partition: acquisition, acknowledgement, locks, and changes of the log and the stored state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

import pytest

from tests.support.share_groups.locks import ManualLockTimers
from tidelog.broker.coordinators.share.persister import SharePartitionKey, ShareStateBatch, StoredState
from tidelog.broker.share_partitions.acknowledgement import AcknowledgedBatch
from tidelog.broker.share_partitions.acquisition import (
    AcquireMode,
    AcquireRequest,
    DeliveryLimits,
    FetchedBatch,
)
from tidelog.broker.share_partitions.in_flight import RANGES_MAX
from tidelog.broker.share_partitions.share_partition import SharePartition, Status
from tidelog.broker.share_partitions.state_change import StateChange
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import run_steps

KEY = SharePartitionKey("g", UUID(int=1), 0)
LOCK_MS = 30_000
ACCEPT, RELEASE, REJECT = 1, 2, 3


class Delivery:
    """A share partition whose log has batches of ten records."""

    def __init__(
        self,
        batches: Sequence[ShareStateBatch] = (),
        *,
        start: int = 0,
        delivery_count_max: int = 5,
        in_flight_max: int = 1000,
    ) -> None:
        limits = DeliveryLimits(
            delivery_count_max=delivery_count_max,
            records_in_flight_max=in_flight_max,
            lock_duration_ms=LOCK_MS,
        )
        self.timers = ManualLockTimers()
        self.partition = SharePartition(KEY, 3, limits, self.timers)
        stored = StoredState(state_epoch=2, start_offset=start, batches=tuple(batches))
        self.partition.load(stored, start)

    def fetch(
        self,
        count: int = 10,
        *,
        member: str = "m",
        batch_size: int = 500,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        size: int = 10,
    ) -> list[tuple[int, int, int]]:
        request = AcquireRequest(member_id=member, max_records=count, batch_size=batch_size, mode=mode)
        offset = self.partition.next_fetch_offset()
        base = offset - offset % size
        batches = (FetchedBatch(first, first + size) for first in range(base, base + 1000 * size, size))
        acquired = self.partition.acquire(request, offset, batches)
        return [(first, last, count) for first, last, count in acquired]

    def acknowledge(self, first: int, last: int, *types: int, member: str = "m") -> StateChange:
        return run_steps(self.partition.acknowledge(member, [AcknowledgedBatch(first, last, types)]))

    def complete(self, first: int, last: int, *types: int) -> None:
        """Acknowledge and store."""
        self.partition.commit(self.acknowledge(first, last, *types))

    def expire(self, after_ms: int = LOCK_MS) -> list[StateChange]:
        changes: list[StateChange] = []
        self.timers.advance(after_ms, lambda lock: changes.append(self.partition.expire(lock)))
        return changes

    def stored_ranges(self, change: StateChange) -> list[tuple[int, int, int, int]]:
        return [
            (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in self.partition.write_of(change).batches
        ]


def test_whole_batches_are_acquired_up_to_the_limit_of_records() -> None:
    assert Delivery().fetch(25) == [(0, 29, 1)]


def test_acquired_records_are_divided_at_batches_by_the_batch_size() -> None:
    assert Delivery().fetch(40, batch_size=15) == [(0, 19, 1), (20, 39, 1)]


def test_the_mode_record_limit_divides_a_batch() -> None:
    delivery = Delivery()
    assert delivery.fetch(7, mode=AcquireMode.RECORD_LIMIT) == [(0, 6, 1)]
    assert delivery.fetch(7, mode=AcquireMode.RECORD_LIMIT) == [(7, 13, 1)]


def test_a_batch_has_one_state_until_a_record_differs() -> None:
    delivery = Delivery()
    delivery.fetch(100)
    assert delivery.partition.range_count == 1
    delivery.complete(30, 39, ACCEPT)
    assert delivery.partition.range_count == 3
    delivery.complete(0, 29, ACCEPT)
    assert (delivery.partition.start_offset, delivery.partition.range_count) == (40, 1)


def test_neighbours_with_the_same_final_state_are_merged() -> None:
    delivery = Delivery()
    delivery.fetch(100)
    for offset in range(10, 60):
        delivery.complete(offset, offset, ACCEPT)
    assert delivery.partition.range_count == 3
    assert delivery.partition.delivery_complete_count == 50


def test_the_start_offset_moves_when_the_first_records_are_complete() -> None:
    delivery = Delivery()
    delivery.fetch(10)
    delivery.complete(5, 9, ACCEPT)
    assert delivery.partition.start_offset == 0
    delivery.complete(0, 4, REJECT)
    assert (delivery.partition.start_offset, delivery.partition.end_offset) == (10, 10)
    assert delivery.timers.pending_count == 0


def test_released_records_are_delivered_again_with_a_higher_count() -> None:
    delivery = Delivery()
    delivery.fetch(10)
    delivery.complete(2, 3, RELEASE)
    assert delivery.fetch(10) == [(2, 3, 2), (10, 19, 1)]


def test_a_record_is_archived_after_its_last_delivery() -> None:
    delivery = Delivery(delivery_count_max=2)
    delivery.fetch(10)
    delivery.complete(0, 0, RELEASE)
    delivery.complete(1, 9, ACCEPT)
    assert delivery.fetch(1, mode=AcquireMode.RECORD_LIMIT) == [(0, 0, 2)]
    delivery.complete(0, 0, RELEASE)
    assert delivery.partition.start_offset == 10


def test_records_that_failed_often_are_delivered_in_smaller_parts_and_at_last_alone() -> None:
    delivery = Delivery(delivery_count_max=5)
    delivery.fetch(8, size=8)
    sizes = []
    for _ in range(4):
        delivery.expire()
        acquired = delivery.fetch(100, size=8)
        sizes.append([(first, last) for first, last, _ in acquired])
    # The second delivery also gets records that are new.
    assert sizes[0][0] == (0, 7)
    assert sizes[1] == [(0, 7), *sizes[1][1:]]
    assert sizes[2] == [(0, 3)]
    assert sizes[3] == [(0, 0)]


def test_a_lowered_delivery_limit_archives_records_that_have_reached_it() -> None:
    delivery = Delivery([ShareStateBatch(0, 4, 0, 5)], delivery_count_max=3)
    assert delivery.fetch(5) == [(5, 9, 1)]
    assert delivery.partition.start_offset == 5


def test_expired_locks_give_the_records_back() -> None:
    delivery = Delivery()
    delivery.fetch(10)
    delivery.complete(4, 4, ACCEPT)
    (change,) = delivery.expire()
    assert delivery.stored_ranges(change) == [(0, 3, 0, 1), (5, 9, 0, 1)]
    with pytest.raises(KafkaError, match="are available"):
        delivery.acknowledge(0, 0, ACCEPT)


def test_a_renewed_lock_expires_later() -> None:
    delivery = Delivery()
    delivery.fetch(10)
    delivery.timers.advance(LOCK_MS - 1, lambda lock: None)
    delivery.acknowledge(0, 3, 4)
    (change,) = delivery.expire(after_ms=1)
    assert delivery.stored_ranges(change) == [(4, 9, 0, 1)]
    (change,) = delivery.expire()
    assert delivery.stored_ranges(change) == [(0, 3, 0, 1)]


def test_a_change_that_is_not_stored_is_rolled_back() -> None:
    delivery = Delivery()
    delivery.fetch(10)
    change = delivery.acknowledge(0, 9, ACCEPT)
    with pytest.raises(KafkaError, match="are being acknowledged"):
        delivery.acknowledge(0, 9, ACCEPT)
    delivery.partition.roll_back(change)
    assert delivery.partition.delivery_complete_count == 0
    delivery.complete(0, 9, ACCEPT)
    assert delivery.partition.start_offset == 10


def test_a_rolled_back_change_whose_lock_has_expired_makes_the_records_available() -> None:
    delivery = Delivery()
    delivery.fetch(10)
    change = delivery.acknowledge(0, 9, ACCEPT)
    assert delivery.expire() and delivery.partition.next_fetch_offset() == 10
    delivery.partition.roll_back(change)
    assert delivery.fetch(10) == [(0, 9, 2)]


def test_an_invalid_acknowledgement_undoes_the_valid_ones_before_it() -> None:
    delivery = Delivery()
    delivery.fetch(20)
    batches = [AcknowledgedBatch(0, 4, (ACCEPT,)), AcknowledgedBatch(5, 99, (ACCEPT,))]
    with pytest.raises(KafkaError) as failure:
        run_steps(delivery.partition.acknowledge("m", batches))
    assert failure.value.code is ErrorCode.INVALID_REQUEST
    delivery.complete(0, 19, ACCEPT)


def test_records_of_another_member_cannot_be_acknowledged() -> None:
    delivery = Delivery()
    delivery.fetch(10, member="m")
    with pytest.raises(KafkaError) as failure:
        delivery.acknowledge(0, 9, ACCEPT, member="n")
    assert failure.value.code is ErrorCode.INVALID_RECORD_STATE


def test_each_record_of_a_batch_can_have_its_own_acknowledgement() -> None:
    delivery = Delivery()
    delivery.fetch(10)
    change = delivery.acknowledge(0, 9, 1, 1, 2, 2, 2, 3, 0, 1, 1, 1)
    assert delivery.stored_ranges(change) == [(0, 1, 2, 1), (2, 4, 0, 1), (5, 6, 4, 1), (7, 9, 2, 1)]


def test_a_member_that_leaves_gives_back_its_records_without_a_delivery() -> None:
    delivery = Delivery()
    delivery.fetch(10, member="m")
    delivery.fetch(10, member="n")
    delivery.partition.commit(delivery.partition.release("m"))
    assert delivery.fetch(10, member="n") == [(0, 9, 1)]


def test_records_below_a_moved_log_start_are_dropped() -> None:
    delivery = Delivery()
    delivery.fetch(20)
    change = delivery.acknowledge(0, 9, ACCEPT)
    delivery.partition.move_start(15)
    delivery.partition.commit(change)
    assert (delivery.partition.start_offset, delivery.partition.in_flight_count) == (15, 5)
    delivery.complete(10, 19, ACCEPT)
    assert delivery.partition.start_offset == 20
    assert delivery.timers.pending_count == 0


def test_gaps_in_the_stored_state_are_delivered_again() -> None:
    delivery = Delivery([ShareStateBatch(5, 9, 2, 1), ShareStateBatch(12, 14, 0, 3)])
    assert delivery.fetch(100, mode=AcquireMode.RECORD_LIMIT)[:2] == [(0, 4, 1), (10, 11, 1)]


@pytest.mark.parametrize(
    "batches",
    [
        [ShareStateBatch(5, 9, 2, 1), ShareStateBatch(8, 9, 2, 1)],
        [ShareStateBatch(5, 4, 2, 1)],
        [ShareStateBatch(0, 4, 1, 1)],
        [ShareStateBatch(0, 4, 7, 1)],
    ],
)
def test_an_invalid_stored_state_is_rejected(batches: list[ShareStateBatch]) -> None:
    with pytest.raises(ValueError, match=r"stored state|RecordState"):
        Delivery(batches)


def test_records_in_flight_are_limited_but_released_ones_are_delivered() -> None:
    delivery = Delivery(in_flight_max=30)
    delivery.fetch(100)
    assert not delivery.partition.can_acquire
    delivery.complete(5, 5, RELEASE)
    assert delivery.partition.can_acquire
    assert delivery.fetch(100) == [(5, 5, 2)]


def test_a_fenced_share_partition_delivers_nothing_and_has_no_timers() -> None:
    delivery = Delivery()
    delivery.fetch(10)
    change = delivery.acknowledge(0, 4, ACCEPT)
    delivery.partition.fence()
    assert delivery.partition.status is Status.FENCED
    assert delivery.fetch(10) == [] and delivery.timers.pending_count == 0
    delivery.partition.roll_back(change)


def test_more_different_states_than_the_limit_are_rejected() -> None:
    count = 2 * RANGES_MAX
    delivery = Delivery(in_flight_max=count)
    delivery.fetch(count, size=count)
    with pytest.raises(KafkaError, match="more than"):
        delivery.acknowledge(0, count - 1, *([ACCEPT, RELEASE] * RANGES_MAX))
    assert delivery.partition.range_count <= RANGES_MAX
    delivery.complete(0, count - 1, ACCEPT)
    assert delivery.partition.in_flight_count == 0


def test_records_acquired_before_an_error_become_available_when_their_lock_expires() -> None:
    delivery = Delivery()

    def batches() -> Iterator[FetchedBatch]:
        yield FetchedBatch(0, 10)
        raise OSError("the log cannot be read")

    request = AcquireRequest(member_id="m", max_records=100, batch_size=500)
    with pytest.raises(OSError, match="cannot be read"):
        delivery.partition.acquire(request, 0, batches())
    assert delivery.partition.next_fetch_offset() == 10
    delivery.expire()
    assert delivery.partition.next_fetch_offset() == 0
