from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.transactions.accumulators import (
    P0,
    P1,
    accumulator,
    cluster,
    full_batches,
    put,
    put_or_fail,
    values,
)
from tidelog.clients.producer.accumulator import NEVER_MS, Readiness, RecordAccumulator, record_size_bound
from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression

BOTH_ON_ONE = cluster({P0: 1, P1: 1})


def ready(target: RecordAccumulator, now_ms: int = 0) -> Readiness:
    return target.ready(BOTH_ON_ONE, now_ms)


def drain(target: RecordAccumulator, now_ms: int = 0, max_size: int = 10_000) -> list[ProducerBatch]:
    return target.drain(ready(target, now_ms).nodes.get(1, []), BOTH_ON_ONE, max_size)


def test_records_of_one_partition_share_a_batch_until_it_is_full() -> None:
    target = accumulator()
    for _ in range(3):
        put_or_fail(target, P0, b"x" * 70)
    assert [batch.record_count for batch in target.queue(P0).batches] == [2, 1]


def test_a_batch_lingers_before_it_is_sent() -> None:
    target = accumulator()
    put_or_fail(target, P0, b"a", now_ms=100)
    assert ready(target, 104).nodes == {}
    assert ready(target, 104).next_check_ms == 6
    assert list(ready(target, 110).nodes) == [1]


def test_a_full_batch_does_not_linger() -> None:
    target = accumulator()
    put_or_fail(target, P0, b"x" * 220)
    assert ready(target).nodes == {}
    put_or_fail(target, P0, b"does not fit into it")
    assert list(ready(target).nodes) == [1]
    put_or_fail(target, P1, b"x" * 250)
    assert len(ready(target).nodes[1]) == 2


def test_a_flush_makes_all_batches_ready_until_it_ends() -> None:
    target = accumulator()
    put_or_fail(target, P0, b"a")
    target.begin_flush()
    assert list(ready(target).nodes) == [1]
    target.end_flush()
    assert ready(target).nodes == {}


def test_waiting_for_memory_and_closing_make_all_batches_ready() -> None:
    target = accumulator()
    put_or_fail(target, P0, b"a")
    with target.memory_wait():
        assert list(ready(target).nodes) == [1]
    assert ready(target).nodes == {}
    target.close()
    assert list(ready(target).nodes) == [1]


def test_a_flush_ends_when_the_batches_at_its_start_are_complete() -> None:
    target = accumulator()
    put_or_fail(target, P0, b"a")
    serial = target.begin_flush()
    assert not target.is_flushed(serial)
    (batch,) = drain(target)
    put_or_fail(target, P1, b"later")
    target.release(batch)
    assert target.is_flushed(serial)


def test_a_request_has_one_batch_per_partition() -> None:
    target = accumulator()
    full_batches(target, P0, 3)
    full_batches(target, P1, 3)
    assert [batch.topic_partition for batch in drain(target)] == [P0, P1]


def test_a_request_is_limited_by_its_size_and_the_others_follow() -> None:
    target = accumulator()
    full_batches(target, P0, 3)
    full_batches(target, P1, 3)
    served = [[batch.topic_partition for batch in drain(target, max_size=400)] for _ in range(4)]
    assert served == [[P0], [P1], [P0], [P1]]


def test_a_batch_larger_than_a_request_is_sent_alone() -> None:
    target = accumulator()
    put_or_fail(target, P0, b"x" * 5_000)
    target.begin_flush()
    assert [batch.record_count for batch in drain(target, max_size=400)] == [1]


def test_a_muted_partition_is_skipped() -> None:
    target = accumulator()
    full_batches(target, P0, 2)
    target.set_muted(P0, True)
    assert ready(target).nodes == {}
    target.set_muted(P0, False)
    assert list(ready(target).nodes) == [1]


def test_a_partition_without_leader_is_reported() -> None:
    target = accumulator()
    full_batches(target, P0, 2)
    result = target.ready(cluster({P1: 1}), 0)
    assert result.unknown_leader_topics == {"tides"}
    assert result.nodes == {}


def test_memory_is_reserved_per_batch_and_released() -> None:
    target = accumulator(buffer_memory=600)
    put_or_fail(target, P0, b"a")
    put_or_fail(target, P1, b"b")
    assert target.memory_used == 600
    assert put_or_fail(target, P0, b"fits into the open batch")
    full = b"x" * 250
    assert put(target, P0, full) is None
    target.begin_flush()
    for batch in drain(target):
        target.release(batch)
    assert target.memory_used == 0
    assert put(target, P0, full) is not None


def test_a_record_larger_than_the_memory_is_accepted_by_an_empty_buffer() -> None:
    target = accumulator(buffer_memory=300)
    assert put(target, P0, b"x" * 280) is not None
    assert put(target, P1, b"x") is None


def test_a_retried_batch_is_first_and_has_a_backoff() -> None:
    target = accumulator()
    full_batches(target, P0, 3)
    (batch,) = drain(target)
    target.reenqueue(batch, now_ms=0)
    assert ready(target, 99).nodes == {}
    assert ready(target, 99).next_check_ms == 1
    assert drain(target, 100) == [batch]
    assert batch.attempts == 1


def test_the_backoff_of_a_retried_batch_grows() -> None:
    target = accumulator()
    full_batches(target, P0, 1)
    target.begin_flush()
    waits = []
    now_ms = 0
    for _ in range(5):
        (batch,) = drain(target, now_ms)
        target.reenqueue(batch, now_ms)
        waits.append(ready(target, now_ms).next_check_ms)
        now_ms += waits[-1]
    assert waits == [100, 200, 400, 800, 1_000]


def test_a_new_leader_ends_the_backoff() -> None:
    target = accumulator()
    full_batches(target, P0, 2)
    (batch,) = drain(target)
    target.reenqueue(batch, now_ms=0)
    assert target.ready(cluster({P0: 1}, epoch=1), 0).nodes == {}
    assert list(target.ready(cluster({P0: 2}, epoch=2), 0).nodes) == [2]


def test_old_batches_expire_from_the_front() -> None:
    target = accumulator()
    put_or_fail(target, P0, b"x" * 250, now_ms=0)
    put_or_fail(target, P0, b"y" * 250, now_ms=500)
    assert target.next_expiry_ms(400) == 600
    assert target.take_expired(999) == []
    assert [values(batch) for batch in close_batches(target.take_expired(1_000))] == [[b"x" * 250]]
    assert [batch.created_ms for batch in target.queue(P0).batches] == [500]


def close_batches(batches: list[ProducerBatch]) -> list[ProducerBatch]:
    for batch in batches:
        batch.close()
    return batches


def test_an_empty_accumulator_has_no_deadline() -> None:
    target = accumulator()
    assert ready(target).next_check_ms == NEVER_MS
    assert target.next_expiry_ms(0) == NEVER_MS


def test_an_oversized_batch_is_split_in_order() -> None:
    target = accumulator(batch_size=2_000)
    outcomes = [put_or_fail(target, P0, f"{number:02}".encode() * 20) for number in range(20)]
    put_or_fail(target, P0, b"z" * 1_900)
    (batch,) = drain(target)
    parts = target.split(batch, now_ms=5)
    assert len(parts) > 1
    assert [delivery for part in parts for delivery in part.deliveries] == outcomes
    assert list(target.queue(P0).batches)[: len(parts)] == parts
    assert all(part.size_bytes <= batch.size_bytes // 2 + 100 for part in parts)
    assert batch not in target.incomplete
    assert target.memory_used == sum(entry.reserved_bytes for entry in target.incomplete)
    assert drain(target, now_ms=5) == parts[:1]


def test_splitting_ends_with_single_records() -> None:
    target = accumulator(batch_size=2_000, compression=Compression.GZIP)
    for number in range(30):
        put_or_fail(target, P0, f"{number:02}".encode() * 20)
    target.begin_flush()
    left = drain(target)
    sizes = []
    while left:
        batch = left.pop()
        if batch.record_count == 1:
            sizes.append(1)
            target.release(batch)
        else:
            target.split(batch, now_ms=0)
        left += drain(target)
    assert len(sizes) == 30


@given(
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=40)), max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_the_size_estimate_of_a_record_is_an_upper_bound(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    builder = BatchBuilder()
    builder.append(0, b"first", b"", ())
    before = builder.estimated_size_bytes
    builder.append(2**40, key, value, headers)
    assert builder.estimated_size_bytes - before <= record_size_bound(key, value, headers)
