from __future__ import annotations

import pytest

from tests.support.transactions.accumulators import (
    P0,
    P1,
    cluster,
    core,
    drain,
    full_batches,
    no_connection_error,
    put_or_fail,
    values,
)
from tidelog.clients.producer.produce_core import BatchResult, ProduceCore, produce_request
from tidelog.clients.producer.producer_identity import ProducerIdentity
from tidelog.protocol.batch import read_header
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

ONE = cluster({P0: 1, P1: 1})


def identity() -> ProducerIdentity:
    result = ProducerIdentity()
    result.set_id(77, 0)
    return result


def test_an_acknowledged_batch_gives_every_record_its_offset() -> None:
    target = core()
    outcomes = [put_or_fail(target.accumulator, P0, value) for value in (b"a", b"b", b"c")]
    (batch,) = drain(target, ONE, now_ms=10)
    assert not target.on_result(batch, BatchResult(ErrorCode.NONE, base_offset=40), 11)
    assert [outcome.result for outcome in outcomes] == [
        (P0.topic, P0.partition, offset, 1_000) for offset in (40, 41, 42)
    ]
    assert target.accumulator.memory_used == 0


def test_log_append_time_is_used_when_returned() -> None:
    target = core()
    outcome = put_or_fail(target.accumulator, P0, b"a")
    (batch,) = drain(target, ONE, now_ms=10)
    target.on_result(batch, BatchResult(ErrorCode.NONE, base_offset=0, log_append_time_ms=5_555), 11)
    assert outcome.result is not None
    assert outcome.result.timestamp == 5_555


def test_a_duplicate_is_a_success_without_offset() -> None:
    target = core(identity())
    outcome = put_or_fail(target.accumulator, P0, b"a")
    (batch,) = drain(target, ONE, now_ms=10)
    target.on_result(batch, BatchResult(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), 11)
    assert outcome.result is not None
    assert outcome.result.offset == -1


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION])
def test_a_stale_leader_causes_a_metadata_update_and_a_retry(code: ErrorCode) -> None:
    target = core()
    outcome = put_or_fail(target.accumulator, P0, b"a")
    (batch,) = drain(target, ONE, now_ms=10)
    assert target.on_result(batch, BatchResult(code), 20)
    assert not outcome.done()
    assert drain(target, ONE, now_ms=119) == []
    assert drain(target, ONE, now_ms=120) == [batch]


def test_a_fatal_error_fails_the_records() -> None:
    target = core()
    outcome = put_or_fail(target.accumulator, P0, b"a")
    (batch,) = drain(target, ONE, now_ms=10)
    result = BatchResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="not for you")
    assert not target.on_result(batch, result, 20)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "not for you" in str(outcome.error)
    assert "tides-0" in str(outcome.error)


def test_retries_are_limited() -> None:
    target = core(retries=2)
    outcome = put_or_fail(target.accumulator, P0, b"a")
    now_ms = 10
    for _ in range(3):
        (batch,) = drain(target, ONE, now_ms)
        target.on_result(batch, BatchResult(ErrorCode.NOT_ENOUGH_REPLICAS), now_ms)
        now_ms += 250
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_records_expire_in_the_queue_and_in_flight() -> None:
    target = core()
    sent = put_or_fail(target.accumulator, P0, b"sent", now_ms=0)
    (batch,) = drain(target, ONE, now_ms=10)
    queued = put_or_fail(target.accumulator, P0, b"queued", now_ms=5)
    assert target.expire(999, no_connection_error) == 0
    assert target.expire(1_005, no_connection_error) == 2
    for outcome in (sent, queued):
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.REQUEST_TIMED_OUT
    target.on_result(batch, BatchResult(ErrorCode.NONE, base_offset=0), 1_006)
    assert target.accumulator.memory_used == 0


def test_an_expired_record_carries_the_error_of_a_full_disk() -> None:
    target = core(delivery_timeout_ms=1_000)
    outcome = put_or_fail(target.accumulator, P0, b"a", now_ms=0)
    (batch,) = drain(target, ONE, now_ms=10)
    target.on_result(
        batch, BatchResult(ErrorCode.KAFKA_STORAGE_ERROR, error_message="No space left on device"), 11
    )
    assert target.expire(1_000, no_connection_error) == 1
    assert isinstance(outcome.error, KafkaError)
    assert "the last error: No space left on device [KAFKA_STORAGE_ERROR]" in str(outcome.error)


def test_an_oversized_batch_is_split_without_counting_a_retry() -> None:
    target = core(batch_size=1_000)
    outcomes = [put_or_fail(target.accumulator, P0, bytes([65 + n]) * 100) for n in range(6)]
    (batch,) = drain(target, ONE, now_ms=10)
    assert not target.on_result(batch, BatchResult(ErrorCode.MESSAGE_TOO_LARGE), 20)
    offset = 0
    while parts := drain(target, ONE, now_ms=20):
        (part,) = parts
        target.on_result(part, BatchResult(ErrorCode.NONE, base_offset=offset), 20)
        offset += part.record_count
    assert [outcome.result.offset for outcome in outcomes if outcome.result] == list(range(6))


def test_a_single_oversized_record_fails() -> None:
    target = core()
    outcome = put_or_fail(target.accumulator, P0, b"x" * 250)
    (batch,) = drain(target, ONE, now_ms=10)
    target.on_result(batch, BatchResult(ErrorCode.MESSAGE_TOO_LARGE), 20)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_one_request_at_a_time_keeps_order_without_idempotence() -> None:
    target = core(keep_order=True)
    full_batches(target.accumulator, P0, 3)
    (first,) = drain(target, ONE)
    assert drain(target, ONE) == []
    target.on_result(first, BatchResult(ErrorCode.NOT_ENOUGH_REPLICAS), 0)
    assert drain(target, ONE, now_ms=50) == []
    assert drain(target, ONE, now_ms=100) == [first]


def test_without_idempotence_many_requests_may_be_in_flight() -> None:
    target = core()
    full_batches(target.accumulator, P0, 4)
    assert [len(drain(target, ONE)) for _ in range(3)] == [1, 1, 1]


def test_abort_fails_queued_and_in_flight_batches() -> None:
    target = core()
    outcomes = full_batches(target.accumulator, P0, 3)
    drain(target, ONE)
    reason = KafkaError(ErrorCode.NETWORK_EXCEPTION, "end")
    target.fail_all(reason)
    for outcome in outcomes:
        assert outcome.error is not None
        assert str(outcome.error).endswith(f"1 record for {P0}: end")
    assert not target.accumulator.incomplete


def test_the_request_carries_one_batch_per_partition_grouped_by_topic() -> None:
    target = core()
    other = TopicPartition("other", 3)
    for partition in (P0, other, P1):
        put_or_fail(target.accumulator, partition, str(partition).encode())
    batches = drain(target, cluster({P0: 1, P1: 1, other: 1}), now_ms=10)
    request = produce_request(batches, ONE, acks=-1, timeout_ms=30_000)
    assert [(topic.name, [data.index for data in topic.partition_data]) for topic in request.topic_data] == [
        ("tides", [0, 1]),
        ("other", [3]),
    ]
    assert (request.acks, request.timeout_ms) == (-1, 30_000)


# --- with idempotence ---


def core_after_first_write(producer_identity: ProducerIdentity, **options: int) -> ProduceCore:
    """Return a core whose producer has written one record to P0, at offset and sequence 0."""
    target = core(producer_identity, **options)
    full_batches(target.accumulator, P0, 1)
    (batch,) = drain(target, ONE)
    target.on_result(batch, BatchResult(ErrorCode.NONE, base_offset=0), 0)
    return target


def test_the_first_batch_is_alone_until_it_is_acknowledged() -> None:
    """KAFKA-14359: the second batch was written after the first was refused, and remained out of order."""
    target = core(producer_identity := identity())
    full_batches(target.accumulator, P0, 3)
    full_batches(target.accumulator, P1, 1)
    first, other = drain(target, ONE)
    assert (first.topic_partition, other.topic_partition) == (P0, P1)
    assert drain(target, ONE) == []
    target.on_result(first, BatchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER), 0)
    assert drain(target, ONE, now_ms=100) == [first]
    assert drain(target, ONE, now_ms=100) == []
    target.on_result(first, BatchResult(ErrorCode.NONE, base_offset=0), 100)
    assert len(drain(target, ONE, now_ms=100) + drain(target, ONE, now_ms=100)) == 2
    assert producer_identity.producer.producer_epoch == 0


def test_nothing_is_sent_without_a_producer_id() -> None:
    fresh = ProducerIdentity()
    target = core(fresh)
    full_batches(target.accumulator, P0, 2)
    assert drain(target, ONE) == []
    fresh.set_id(5, 0)
    assert len(drain(target, ONE)) == 1


def test_sequences_count_records_and_are_in_the_bytes() -> None:
    target = core_after_first_write(identity())
    for _ in range(5):
        put_or_fail(target.accumulator, P0, b"x" * 70)
    first, second = drain(target, ONE) + drain(target, ONE)
    headers = [read_header(batch.close()) for batch in (first, second)]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [(77, 0, 1), (77, 0, 3)]


def test_a_retry_sends_the_same_bytes() -> None:
    target = core(identity())
    full_batches(target.accumulator, P0, 2)
    (batch,) = drain(target, ONE)
    before = bytes(batch.close())
    target.on_result(batch, BatchResult(ErrorCode.NETWORK_EXCEPTION), 0)
    assert drain(target, ONE, now_ms=100) == [batch]
    assert bytes(batch.close()) == before


def test_retried_batches_are_in_sequence_order() -> None:
    target = core_after_first_write(identity())
    full_batches(target.accumulator, P0, 4)
    sent = [drain(target, ONE)[0] for _ in range(3)]
    for index in (1, 2, 0):
        target.on_result(sent[index], BatchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER), 0)
    assert list(target.accumulator.queue(P0).batches)[:3] == sent


def test_during_a_retry_only_the_first_unacknowledged_batch_is_sent() -> None:
    target = core_after_first_write(identity())
    full_batches(target.accumulator, P0, 4)
    sent = [drain(target, ONE)[0] for _ in range(3)]
    for batch in sent:
        target.on_result(batch, BatchResult(ErrorCode.NETWORK_EXCEPTION), 0)
    assert drain(target, ONE, now_ms=200) == [sent[0]]
    assert drain(target, ONE, now_ms=200) == []
    target.on_result(sent[0], BatchResult(ErrorCode.NONE, base_offset=1), 200)
    assert drain(target, ONE, now_ms=200) == [sent[1]]


def test_a_batch_after_a_failed_one_is_out_of_order_and_retried() -> None:
    target = core_after_first_write(producer_identity := identity())
    full_batches(target.accumulator, P0, 3)
    first, second = drain(target, ONE) + drain(target, ONE)
    target.on_result(first, BatchResult(ErrorCode.NOT_ENOUGH_REPLICAS), 0)
    target.on_result(second, BatchResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0)
    assert drain(target, ONE, now_ms=100) == [first]
    assert producer_identity.producer.producer_epoch == 0
    assert (first.base_sequence, second.base_sequence) == (1, 2)


def test_a_certain_gap_raises_the_epoch_and_restarts_at_sequence_zero() -> None:
    target = core(producer_identity := identity())
    full_batches(target.accumulator, P0, 3)
    first = drain(target, ONE)[0]
    target.on_result(first, BatchResult(ErrorCode.NONE, base_offset=0), 0)
    second = drain(target, ONE)[0]
    target.on_result(second, BatchResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0)
    assert drain(target, ONE, now_ms=100) == [second]
    assert producer_identity.producer.producer_epoch == 1
    header = read_header(second.close())
    assert (header.producer_epoch, header.base_sequence) == (1, 0)


def test_an_unknown_producer_id_raises_the_epoch_once_for_all_in_flight_batches() -> None:
    target = core_after_first_write(producer_identity := identity())
    full_batches(target.accumulator, P0, 4)
    sent = [drain(target, ONE)[0] for _ in range(3)]
    lost = BatchResult(ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset=10)
    target.on_result(sent[0], lost, 0)
    target.ready(ONE, 0)
    assert producer_identity.producer.producer_epoch == 1
    for batch in sent[1:]:
        target.on_result(batch, lost, 0)
    target.ready(ONE, 0)
    assert producer_identity.producer.producer_epoch == 1
    assert [batch.base_sequence for batch in sent] == [0, 1, 2]


def test_after_an_in_flight_batch_expired_nothing_new_is_sent_until_the_rest_completes() -> None:
    target = core_after_first_write(producer_identity := identity(), delivery_timeout_ms=1_000)
    put_or_fail(target.accumulator, P0, b"a" * 250, now_ms=0)
    put_or_fail(target.accumulator, P0, b"b" * 250, now_ms=600)
    put_or_fail(target.accumulator, P0, b"c" * 250, now_ms=600)
    first, second = drain(target, ONE, 600) + drain(target, ONE, 600)
    assert target.expire(1_000, no_connection_error) == 1
    assert drain(target, ONE, now_ms=1_000) == []
    # The batch after it was written, so the expired batch was written too.
    target.on_result(second, BatchResult(ErrorCode.NONE, base_offset=2), 1_000)
    third = drain(target, ONE, now_ms=1_000)
    assert [batch.base_sequence for batch in third] == [3]
    assert producer_identity.producer.producer_epoch == 0
    assert first.is_done


def test_the_epoch_is_raised_when_all_in_flight_batches_expired() -> None:
    target = core(producer_identity := identity(), delivery_timeout_ms=1_000)
    put_or_fail(target.accumulator, P0, b"a" * 250, now_ms=0)
    put_or_fail(target.accumulator, P0, b"b" * 250, now_ms=600)
    drain(target, ONE, 600)
    target.expire(1_000, no_connection_error)
    (batch,) = drain(target, ONE, now_ms=1_000)
    assert producer_identity.producer.producer_epoch == 1
    assert (batch.producer.producer_epoch, batch.base_sequence) == (1, 0)


def test_a_fatally_refused_record_does_not_block_later_ones() -> None:
    target = core_after_first_write(producer_identity := identity())
    full_batches(target.accumulator, P0, 3)
    first, second = drain(target, ONE) + drain(target, ONE)
    target.on_result(first, BatchResult(ErrorCode.INVALID_TIMESTAMP), 0)
    target.on_result(second, BatchResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0)
    assert drain(target, ONE, now_ms=100) == [second]
    assert producer_identity.producer.producer_epoch == 1
    assert second.base_sequence == 0


def test_the_parts_of_a_split_batch_keep_its_sequences() -> None:
    target = core(identity(), batch_size=1_000)
    for number in range(6):
        put_or_fail(target.accumulator, P0, bytes([65 + number]) * 100)
    (batch,) = drain(target, ONE, now_ms=10)
    target.on_result(batch, BatchResult(ErrorCode.MESSAGE_TOO_LARGE), 20)
    sent_batches = []
    while parts := drain(target, ONE, now_ms=20):
        sent_batches.append((parts[0].base_sequence, len(values(parts[0]))))
        target.on_result(parts[0], BatchResult(ErrorCode.NONE, base_offset=parts[0].base_sequence), 20)
    assert len(sent_batches) > 1
    assert [base for base, _ in sent_batches] == [
        sum(count for _, count in sent_batches[:i]) for i in range(len(sent_batches))
    ]


def test_a_fenced_idempotent_producer_gets_a_new_id() -> None:
    target = core(producer_identity := identity())
    outcomes = full_batches(target.accumulator, P0, 2)
    (batch,) = drain(target, ONE)
    target.on_result(batch, BatchResult(ErrorCode.INVALID_PRODUCER_EPOCH), 0)
    assert outcomes[0].error is not None
    assert not producer_identity.has_id
    producer_identity.set_id(78, 0)
    target.accumulator.begin_flush()
    (following,) = drain(target, ONE)
    assert (following.producer.producer_id, following.base_sequence) == (78, 0)
