"""What a transactional producer sends, and what each answer of each API does to it."""

from __future__ import annotations

from typing import Any

import pytest

from clients.consumer_types import ConsumerGroupMetadata, OffsetAndMetadata
from clients.produce_core import BatchAnswer
from clients.transaction_errors import AbortableTransactionError, FatalTransactionError
from clients.transaction_life import Operation, TransactionState
from clients.transaction_manager import Step
from protocol.batch import read_header
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.support.accumulators import P0, P1, cluster, drain, must_put
from tests.support.transactional_producers import (
    TransactionalBench,
    ended,
    initialized,
    offsets_added,
    offsets_committed,
    partition_codes,
    partitions_added,
)

S = TransactionState
E = ErrorCode
GROUP = ConsumerGroupMetadata("harbour", 3, "member")
AT_5 = {P0: OffsetAndMetadata(5)}
LEADERS = cluster({P0: 1, P1: 1})
FENCED = (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH)
BOTH_VERSIONS = pytest.mark.parametrize("is_v2", [False, True], ids=["v1", "v2"])


def ready(*, is_v2: bool = False, version: int = 4, **options: Any) -> TransactionalBench:
    bench = TransactionalBench(is_v2=is_v2, **options)
    bench.initialize(version=version)
    return bench


def put(bench: TransactionalBench, value: bytes = b"high", partition: Any = P0) -> Any:
    """Send one record as a producer does."""
    outcome = must_put(bench.core.accumulator, partition, value)
    bench.manager.add_partition(partition)
    return outcome


# --- the ways of the versions ---------------------------------------------------------------


def test_before_version_2_partitions_are_added_before_their_records_go_out() -> None:
    bench = ready()
    bench.manager.begin_transaction()
    written = put(bench)
    assert drain(bench.core, LEADERS, now_ms=20) == []
    message = bench.exchange(partitions_added(P0))
    assert isinstance(message, AddPartitionsToTxnRequest)
    assert (message.v3_and_below_producer_id, message.v3_and_below_producer_epoch) == (7, 0)
    [batch] = drain(bench.core, LEADERS, now_ms=20)
    assert read_header(batch.close()).is_transactional
    bench.commit()
    assert bench.next() is None, "not before the records are written"
    bench.core.answered(batch, BatchAnswer(E.NONE, 0), 30)
    assert written.result is not None
    message = bench.exchange(ended())
    assert isinstance(message, EndTxnRequest) and message.committed
    bench.manager.claim()
    assert bench.state is S.READY
    assert (bench.manager.identity.producer_id, bench.manager.identity.producer_epoch) == (7, 0)


def test_with_version_2_nothing_is_added_and_the_end_brings_the_next_epoch() -> None:
    bench = ready(is_v2=True)
    bench.manager.begin_transaction()
    put(bench)
    assert bench.next() is None
    [batch] = drain(bench.core, LEADERS, now_ms=20)
    bench.core.answered(batch, BatchAnswer(E.NONE, 0), 30)
    bench.commit()
    message = bench.exchange(ended(producer_id=7, producer_epoch=1), 5)
    assert isinstance(message, EndTxnRequest) and message.producer_epoch == 0
    bench.manager.claim()
    bench.manager.begin_transaction()
    put(bench)
    [batch] = drain(bench.core, LEADERS, now_ms=50)
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


@BOTH_VERSIONS
def test_requests_are_bounded_by_the_version_that_means_the_protocol(is_v2: bool) -> None:
    bench = ready(is_v2=is_v2)
    bench.open(P0)
    bench.manager.add_offsets(GROUP, AT_5)
    if not is_v2:
        bench.exchange(offsets_added())
    offsets = bench.manager.next_request(has_incomplete=False)
    assert offsets is not None and offsets.highest_version == (5 if is_v2 else 4)
    assert offsets.group_id == "harbour"
    bench.answer(offsets_committed({P0: E.NONE}))
    bench.commit()
    end = bench.manager.next_request(has_incomplete=False)
    assert end is not None and end.highest_version == (5 if is_v2 else 4)


def test_offsets_are_announced_before_version_2_and_committed_as_the_member() -> None:
    bench = ready()
    bench.open()
    work = bench.manager.add_offsets(GROUP, AT_5)
    assert isinstance(bench.exchange(offsets_added()), AddOffsetsToTxnRequest)
    assert not work.is_done
    message = bench.exchange(offsets_committed({P0: E.NONE}))
    assert isinstance(message, TxnOffsetCommitRequest)
    assert (message.group_id, message.generation_id, message.member_id) == ("harbour", 3, "member")
    assert work.is_done and work.error is None
    bench.commit()
    assert isinstance(bench.exchange(ended()), EndTxnRequest)


def test_a_member_s_offsets_need_a_broker_that_knows_members() -> None:
    bench = ready(is_v2=True)
    bench.open()
    bench.manager.add_offsets(GROUP, AT_5)
    request = bench.manager.next_request(has_incomplete=False)
    assert request is not None
    with pytest.raises(KafkaError) as caught:
        request.make(2)
    assert caught.value.code is E.UNSUPPORTED_VERSION


@BOTH_VERSIONS
def test_a_transaction_in_which_nothing_was_sent_ends_without_a_request(is_v2: bool) -> None:
    for end in ("commit", "abort"):
        bench = ready(is_v2=is_v2)
        bench.open()
        getattr(bench, end)()
        assert bench.next() is None
        bench.manager.claim()
        assert bench.state is S.READY


def test_an_upgrade_to_version_2_takes_a_new_epoch_between_two_transactions() -> None:
    bench = ready()
    bench.open(P0)
    bench.manager.begin_commit(is_v2=True)
    assert bench.manager.next_request(has_incomplete=False).highest_version == 4  # type: ignore[union-attr]
    bench.answer(ended())
    assert not bench.manager.is_settled
    message = bench.exchange(initialized(7, 1))
    assert isinstance(message, InitProducerIdRequest)
    assert (message.producer_id, message.producer_epoch) == (7, 0)
    bench.manager.claim()
    assert bench.manager.is_v2 and bench.manager.identity.producer_epoch == 1


# --- answers that get lost -------------------------------------------------------------------


@BOTH_VERSIONS
def test_a_commit_whose_answer_was_lost_is_sent_again_in_the_same_epoch(is_v2: bool) -> None:
    bench = ready(is_v2=is_v2)
    bench.open(P0)
    bench.commit()
    first = bench.next()
    assert bench.manager.lost(was_sent=True) is Step.RETRY
    assert bench.next() == first


def test_before_version_2_a_lost_answer_is_followed_by_a_new_epoch_so_that_a_late_request_is_fenced() -> None:
    # KAFKA-17754
    bench = ready()
    bench.open(P0)
    bench.commit()
    bench.next()
    bench.manager.lost(was_sent=True)
    bench.exchange(ended())
    assert not bench.manager.is_settled, "the late EndTxn could still end the next transaction"
    message = bench.exchange(initialized(7, 1))
    assert (message.producer_id, message.producer_epoch) == (7, 0)
    bench.manager.claim()
    assert bench.manager.identity.producer_epoch == 1


def test_what_was_never_sent_needs_no_new_epoch() -> None:
    bench = ready()
    bench.open(P0)
    bench.commit()
    bench.next()
    bench.manager.lost(was_sent=False)
    bench.exchange(ended())
    assert bench.state is S.READY


def test_an_abort_ends_what_a_lost_addition_may_have_begun() -> None:
    for code in (E.NONE, E.INVALID_TXN_STATE):
        bench = ready()
        bench.manager.begin_transaction()
        put(bench)
        bench.next()
        bench.manager.lost(was_sent=True)
        bench.abort()
        bench.core.drop_unsent(KafkaError(E.OPERATION_NOT_ATTEMPTED))
        message = bench.exchange(ended(code))
        assert isinstance(message, EndTxnRequest) and not message.committed
        bench.exchange(initialized(7, 1))
        bench.manager.claim()
        assert bench.state is S.READY


def test_a_commit_that_is_made_counts_though_the_epoch_after_it_cannot_be_had() -> None:
    bench = ready()
    bench.open(P0)
    bench.commit()
    bench.next()
    bench.manager.lost(was_sent=True)
    bench.exchange(ended())
    bench.exchange(initialized(code=E.PRODUCER_FENCED))
    bench.manager.claim()
    with pytest.raises(FatalTransactionError):
        bench.manager.begin_transaction()


def test_nothing_else_can_be_begun_until_the_end_of_a_commit_was_heard() -> None:
    bench = ready()
    bench.open(P0)
    bench.commit()
    for attempt in (bench.manager.begin_transaction, bench.abort, bench.manager.require_open):
        with pytest.raises(KafkaError, match="the end of commit_transaction was not awaited"):
            attempt()
    bench.exchange(ended())
    with pytest.raises(KafkaError, match="the end of commit_transaction was not awaited"):
        bench.manager.begin_transaction()
    assert bench.manager.unclaimed is Operation.COMMIT
    bench.manager.claim()
    bench.manager.begin_transaction()


# --- error codes -----------------------------------------------------------------------------

PASSING = {
    E.COORDINATOR_LOAD_IN_PROGRESS: Step.RETRY,
    E.CONCURRENT_TRANSACTIONS: Step.RETRY,
    E.NOT_COORDINATOR: Step.FIND_COORDINATOR,
    E.COORDINATOR_NOT_AVAILABLE: Step.FIND_COORDINATOR,
}
INIT = PASSING | {
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: S.UNINITIALIZED,
    E.CLUSTER_AUTHORIZATION_FAILED: S.UNINITIALIZED,
    E.TRANSACTION_ABORTABLE: S.UNINITIALIZED,
    E.INVALID_TRANSACTION_TIMEOUT: S.FATAL_ERROR,
    E.INVALID_PRODUCER_EPOCH: S.FATAL_ERROR,
    E.PRODUCER_FENCED: S.FATAL_ERROR,
    E.INVALID_REQUEST: S.FATAL_ERROR,
}
ADD_PARTITIONS = PASSING | {
    E.CONCURRENT_TRANSACTIONS: Step.RETRY_SOON,
    E.UNKNOWN_TOPIC_OR_PARTITION: Step.RETRY,
    E.UNKNOWN_PRODUCER_ID: S.ABORTABLE_ERROR,
    E.TRANSACTION_ABORTABLE: S.ABORTABLE_ERROR,
    E.TOPIC_AUTHORIZATION_FAILED: S.ABORTABLE_ERROR,
    E.OPERATION_NOT_ATTEMPTED: S.ABORTABLE_ERROR,
    E.UNKNOWN_SERVER_ERROR: S.ABORTABLE_ERROR,
    E.INVALID_TXN_STATE: S.FATAL_ERROR,
    E.INVALID_PRODUCER_ID_MAPPING: S.FATAL_ERROR,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: S.FATAL_ERROR,
    E.INVALID_PRODUCER_EPOCH: S.FATAL_ERROR,
    E.PRODUCER_FENCED: S.FATAL_ERROR,
}
ADD_OFFSETS = PASSING | {
    E.UNKNOWN_PRODUCER_ID: S.ABORTABLE_ERROR,
    E.TRANSACTION_ABORTABLE: S.ABORTABLE_ERROR,
    E.GROUP_AUTHORIZATION_FAILED: S.ABORTABLE_ERROR,
    E.INVALID_TXN_STATE: S.FATAL_ERROR,
    E.INVALID_PRODUCER_ID_MAPPING: S.FATAL_ERROR,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: S.FATAL_ERROR,
    E.INVALID_PRODUCER_EPOCH: S.FATAL_ERROR,
    E.PRODUCER_FENCED: S.FATAL_ERROR,
    E.UNKNOWN_SERVER_ERROR: S.FATAL_ERROR,
}
COMMIT_OFFSETS = PASSING | {
    E.REQUEST_TIMED_OUT: Step.FIND_COORDINATOR,
    E.UNKNOWN_TOPIC_OR_PARTITION: Step.RETRY,
    E.GROUP_AUTHORIZATION_FAILED: S.ABORTABLE_ERROR,
    E.FENCED_INSTANCE_ID: S.ABORTABLE_ERROR,
    E.UNKNOWN_MEMBER_ID: S.ABORTABLE_ERROR,
    E.ILLEGAL_GENERATION: S.ABORTABLE_ERROR,
    E.TRANSACTION_ABORTABLE: S.ABORTABLE_ERROR,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: S.FATAL_ERROR,
    E.UNSUPPORTED_FOR_MESSAGE_FORMAT: S.FATAL_ERROR,
    E.INVALID_PRODUCER_EPOCH: S.FATAL_ERROR,
    E.PRODUCER_FENCED: S.FATAL_ERROR,
    E.UNKNOWN_SERVER_ERROR: S.FATAL_ERROR,
}
COMMIT = PASSING | {
    E.UNKNOWN_PRODUCER_ID: S.ABORTABLE_ERROR,
    E.TRANSACTION_ABORTABLE: S.ABORTABLE_ERROR,
    E.INVALID_TXN_STATE: S.FATAL_ERROR,
    E.INVALID_PRODUCER_ID_MAPPING: S.FATAL_ERROR,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: S.FATAL_ERROR,
    E.INVALID_PRODUCER_EPOCH: S.FATAL_ERROR,
    E.PRODUCER_FENCED: S.FATAL_ERROR,
    E.UNKNOWN_SERVER_ERROR: S.FATAL_ERROR,
}
ABORT = COMMIT | {E.UNKNOWN_PRODUCER_ID: S.INITIALIZING, E.TRANSACTION_ABORTABLE: Step.RETRY}
BATCH = {
    E.MESSAGE_TOO_LARGE: S.ABORTABLE_ERROR,
    E.TOPIC_AUTHORIZATION_FAILED: S.ABORTABLE_ERROR,
    E.INVALID_TXN_STATE: S.ABORTABLE_ERROR,
    E.TRANSACTION_ABORTABLE: S.ABORTABLE_ERROR,
    E.INVALID_PRODUCER_EPOCH: S.ABORTABLE_ERROR,
    E.OUT_OF_ORDER_SEQUENCE_NUMBER: S.ABORTABLE_ERROR,
    E.CLUSTER_AUTHORIZATION_FAILED: S.FATAL_ERROR,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: S.FATAL_ERROR,
    E.INVALID_PRODUCER_ID_MAPPING: S.FATAL_ERROR,
    E.UNSUPPORTED_VERSION: S.FATAL_ERROR,
    E.PRODUCER_FENCED: S.FATAL_ERROR,
}
Expected = Step | TransactionState


def cases(table: dict[ErrorCode, Any]) -> Any:
    return pytest.mark.parametrize(
        ("code", "expected"), list(table.items()), ids=[code.name for code in table]
    )


def expect(
    bench: TransactionalBench, message: Any, response: Any, code: ErrorCode, expected: Expected
) -> None:
    """The answer leads to a step after which the same is sent again, or to a state with that error."""
    step = bench.answer(response)
    if isinstance(expected, Step):
        assert step is expected
        assert bench.next() == message
        return
    assert bench.state is expected
    if expected is S.INITIALIZING:
        return
    assert bench.manager.error is not None
    assert bench.manager.error.code is (E.PRODUCER_FENCED if code in FENCED else code)


@cases(INIT)
def test_answers_to_init_producer_id(code: ErrorCode, expected: Expected) -> None:
    bench = TransactionalBench(is_v2=False)
    bench.manager.begin_init(is_v2=False)
    expect(bench, bench.next(), initialized(-1, -1, code), code, expected)
    if bench.state is S.UNINITIALIZED:
        with pytest.raises(KafkaError):
            bench.manager.claim()
        bench.initialize()  # it may be allowed now


@cases(ADD_PARTITIONS)
def test_answers_to_add_partitions_to_txn(code: ErrorCode, expected: Expected) -> None:
    bench = ready()
    bench.manager.begin_transaction()
    bench.manager.add_partition(P0)
    expect(bench, bench.next(), partitions_added(P0, code=code), code, expected)


@cases(ADD_OFFSETS)
def test_answers_to_add_offsets_to_txn(code: ErrorCode, expected: Expected) -> None:
    bench = ready()
    bench.open()
    work = bench.manager.add_offsets(GROUP, AT_5)
    expect(bench, bench.next(), offsets_added(code), code, expected)
    assert (work.error is None) == isinstance(expected, Step)


@BOTH_VERSIONS
@cases(COMMIT_OFFSETS)
def test_answers_to_txn_offset_commit(code: ErrorCode, expected: Expected, is_v2: bool) -> None:
    bench = ready(is_v2=is_v2)
    bench.open()
    work = bench.manager.add_offsets(GROUP, AT_5)
    if not is_v2:
        bench.exchange(offsets_added())
    expect(bench, bench.next(), offsets_committed({P0: code}), code, expected)
    assert (work.error is None) == isinstance(expected, Step)


@BOTH_VERSIONS
@cases(COMMIT)
def test_answers_to_a_commit(code: ErrorCode, expected: Expected, is_v2: bool) -> None:
    bench = ready(is_v2=is_v2)
    bench.open(P0)
    bench.commit()
    expect(bench, bench.next(), ended(code), code, expected)
    if expected is S.ABORTABLE_ERROR:
        with pytest.raises(AbortableTransactionError):
            bench.manager.claim()
        bench.abort()
        bench.exchange(ended(producer_id=7 if is_v2 else -1, producer_epoch=1))


@BOTH_VERSIONS
@cases(ABORT)
def test_answers_to_an_abort(code: ErrorCode, expected: Expected, is_v2: bool) -> None:
    bench = ready(is_v2=is_v2)
    bench.open(P0)
    bench.abort()
    expect(bench, bench.next(), ended(code), code, expected)


@BOTH_VERSIONS
@cases(BATCH)
def test_a_batch_that_fails_for_good(code: ErrorCode, expected: Expected, is_v2: bool) -> None:
    bench = ready(is_v2=is_v2)
    bench.open(P0)
    written = put(bench)
    [batch] = drain(bench.core, LEADERS, now_ms=20)
    bench.core.answered(batch, BatchAnswer(code), 30)
    assert bench.state is expected
    assert written.error is not None and written.error.code is code
    if expected is S.ABORTABLE_ERROR:
        bench.abort()
        message = bench.exchange(ended(producer_id=7 if is_v2 else -1, producer_epoch=1))
        assert isinstance(message, EndTxnRequest) and not message.committed
        assert bench.state is (S.READY if is_v2 else S.INITIALIZING), "the next transaction has a new epoch"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, S.FATAL_ERROR),
        (E.UNSUPPORTED_VERSION, S.FATAL_ERROR),
        (E.GROUP_AUTHORIZATION_FAILED, S.ABORTABLE_ERROR),
        (E.TRANSACTION_ABORTABLE, S.ABORTABLE_ERROR),
    ],
)
def test_a_coordinator_that_cannot_be_asked(code: ErrorCode, expected: TransactionState) -> None:
    bench = ready(is_v2=True)
    bench.open()
    work = bench.manager.add_offsets(GROUP, AT_5)
    bench.next()
    bench.manager.refused(KafkaError(code, "no"))
    assert bench.state is expected
    assert work.error is not None and work.error.code is code


def test_without_a_way_to_a_new_epoch_a_failed_batch_is_fatal() -> None:
    bench = ready(version=2)
    bench.open(P0)
    put(bench)
    [batch] = drain(bench.core, LEADERS, now_ms=20)
    bench.core.answered(batch, BatchAnswer(E.OUT_OF_ORDER_SEQUENCE_NUMBER), 30)
    assert bench.state is S.FATAL_ERROR


def test_operation_not_attempted_only_says_that_another_partition_has_failed() -> None:
    for code, expected in ((E.UNKNOWN_TOPIC_OR_PARTITION, None), (E.TOPIC_AUTHORIZATION_FAILED, P1)):
        bench = ready()
        bench.manager.begin_transaction()
        bench.manager.add_partition(P0)
        bench.manager.add_partition(P1)
        bench.next()
        step = bench.answer(partition_codes({P0: E.OPERATION_NOT_ATTEMPTED, P1: code}))
        if expected is None:
            assert step is Step.RETRY
        else:
            assert bench.manager.error is not None and bench.manager.error.code is code


def test_an_answer_that_lacks_a_partition_is_not_taken_for_success() -> None:
    bench = ready()
    bench.manager.begin_transaction()
    bench.manager.add_partition(P0)
    bench.manager.add_partition(P1)
    bench.next()
    bench.answer(partitions_added(P0))
    assert bench.state is S.ABORTABLE_ERROR


def test_offsets_that_are_refused_for_a_moment_are_sent_again_without_those_that_are_recorded() -> None:
    bench = ready(is_v2=True)
    bench.open()
    work = bench.manager.add_offsets(GROUP, {P0: OffsetAndMetadata(5), P1: OffsetAndMetadata(6)})
    bench.next()
    assert bench.answer(offsets_committed({P0: E.NONE, P1: E.NOT_COORDINATOR})) is Step.FIND_COORDINATOR
    assert list(work.left) == [P1]
    bench.exchange(offsets_committed({P1: E.NONE}))
    assert work.is_done and work.error is None


# --- batches and the end ---------------------------------------------------------------------


def test_an_abort_drops_what_was_not_sent_and_waits_for_what_was() -> None:
    bench = ready(is_v2=True)
    bench.manager.begin_transaction()
    first = put(bench, b"a" * 250)
    [batch] = drain(bench.core, LEADERS, now_ms=20)
    second = put(bench, b"b" * 250)
    bench.abort()
    assert drain(bench.core, LEADERS, now_ms=40) == []
    assert bench.core.drop_unsent(KafkaError(E.OPERATION_NOT_ATTEMPTED, "aborted"))
    assert second.error is not None and second.error.code is E.OPERATION_NOT_ATTEMPTED
    assert bench.next() is None, "a batch is on its way"
    bench.core.answered(batch, BatchAnswer(E.NONE, 0), 50)
    assert first.result is not None
    assert isinstance(bench.exchange(ended(producer_id=7, producer_epoch=1)), EndTxnRequest)


def test_a_batch_in_retry_is_sent_on_during_an_abort_but_not_behind_one_that_failed() -> None:
    bench = ready(is_v2=True)
    bench.manager.begin_transaction()
    put(bench, b"a" * 250)
    [batch] = drain(bench.core, LEADERS, now_ms=20)
    bench.abort()
    bench.core.answered(batch, BatchAnswer(E.NOT_LEADER_OR_FOLLOWER), 30)
    [again] = drain(bench.core, LEADERS, now_ms=500)
    assert again is batch
    bench.core.answered(batch, BatchAnswer(E.OUT_OF_ORDER_SEQUENCE_NUMBER), 510)
    assert not bench.core.accumulator.incomplete


def test_a_batch_that_expires_unsent_makes_the_transaction_fail_without_a_new_epoch() -> None:
    bench = ready()
    bench.manager.begin_transaction()
    put(bench)
    bench.exchange(partitions_added(P0))
    bench.core.expire(5_000)
    assert bench.state is S.ABORTABLE_ERROR
    bench.abort()
    bench.exchange(ended())
    assert bench.state is S.READY


def test_an_answer_for_a_batch_that_expired_is_taken_after_the_end_of_its_transaction() -> None:
    bench = ready(is_v2=True)
    bench.manager.begin_transaction()
    put(bench)
    [batch] = drain(bench.core, LEADERS, now_ms=20)
    bench.core.expire(5_000)
    assert bench.state is S.ABORTABLE_ERROR
    bench.abort()
    bench.exchange(ended(producer_id=7, producer_epoch=1))
    bench.core.answered(batch, BatchAnswer(E.NONE, 3), 6_000)
    assert bench.state is S.READY


def test_a_record_that_could_not_be_taken_keeps_its_transaction_from_being_committed() -> None:
    bench = ready(is_v2=True)
    bench.manager.begin_transaction()
    bench.manager.send_failed(KafkaError(E.MESSAGE_TOO_LARGE, "a record of 9 bytes"))
    with pytest.raises(AbortableTransactionError, match="9 bytes"):
        bench.commit()
    bench.abort()
    assert bench.next() is None
    assert bench.state is S.READY


def test_a_producer_whose_state_was_removed_by_retention_goes_on_from_sequence_0() -> None:
    bench = ready()
    bench.open(P0)
    put(bench, b"a" * 250)
    [first] = drain(bench.core, LEADERS, now_ms=20)
    bench.core.answered(first, BatchAnswer(E.NONE, 0), 30)
    put(bench, b"b" * 250)
    [second] = drain(bench.core, LEADERS, now_ms=40)
    assert second.base_sequence == 1
    bench.core.answered(second, BatchAnswer(E.UNKNOWN_PRODUCER_ID, log_start_offset=10), 50)
    assert bench.state is S.IN_TRANSACTION
    [again] = drain(bench.core, LEADERS, now_ms=500)
    assert (again.base_sequence, again.producer_epoch) == (0, 0)
