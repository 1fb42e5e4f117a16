"""The requests of a transactional producer, and its batches after lost or negative responses."""

from __future__ import annotations

import pytest

from tests.support.network.scripted_coordinators import GROUP
from tests.support.states import state_of
from tests.support.transactions.accumulators import P0, drain, no_connection_error
from tests.support.transactions.producers import (
    AT_5,
    BOTH_VERSIONS,
    LEADERS,
    add_offsets_response,
    add_partitions_response,
    end_txn_response,
    init_producer_id_response,
    put,
    ready,
    txn_offset_commit_response,
)
from tidelog.clients.producer.produce_core import BatchResult
from tidelog.clients.transactions.transaction_errors import AbortableTransactionError, FatalTransactionError
from tidelog.clients.transactions.transaction_lifecycle import Operation, TransactionState
from tidelog.clients.transactions.transaction_manager import Step
from tidelog.protocol.batch import read_header
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tidelog.protocol.messages.end_txn import EndTxnRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

S = TransactionState
E = ErrorCode


# --- the requests of each version ---


def test_before_version_2_partitions_are_added_before_their_records_are_sent() -> None:
    fixture = ready()
    fixture.manager.begin_transaction()
    written = put(fixture)
    assert drain(fixture.core, LEADERS, now_ms=20) == []
    message = fixture.exchange(add_partitions_response(P0))
    assert isinstance(message, AddPartitionsToTxnRequest)
    assert (message.v3_and_below_producer_id, message.v3_and_below_producer_epoch) == (7, 0)
    [batch] = drain(fixture.core, LEADERS, now_ms=20)
    assert read_header(batch.close()).is_transactional
    fixture.commit()
    assert fixture.next_request() is None, "not before the records are written"
    fixture.core.on_result(batch, BatchResult(E.NONE, 0), 30)
    assert written.result is not None
    message = fixture.exchange(end_txn_response())
    assert isinstance(message, EndTxnRequest) and message.committed
    fixture.manager.lifecycle.take_result()
    assert fixture.state is S.READY
    assert (fixture.manager.producer.producer_id, fixture.manager.producer.producer_epoch) == (7, 0)


def test_with_version_2_nothing_is_added_and_the_end_returns_the_next_epoch() -> None:
    fixture = ready(is_v2=True)
    fixture.manager.begin_transaction()
    put(fixture)
    assert fixture.next_request() is None
    [batch] = drain(fixture.core, LEADERS, now_ms=20)
    fixture.core.on_result(batch, BatchResult(E.NONE, 0), 30)
    fixture.commit()
    message = fixture.exchange(end_txn_response(producer_id=7, producer_epoch=1), 5)
    assert isinstance(message, EndTxnRequest) and message.producer_epoch == 0
    fixture.manager.lifecycle.take_result()
    fixture.manager.begin_transaction()
    put(fixture)
    [batch] = drain(fixture.core, LEADERS, now_ms=50)
    assert (batch.producer.producer_epoch, batch.base_sequence) == (1, 0)


@BOTH_VERSIONS
def test_request_versions_are_limited_by_the_transaction_version(is_v2: bool) -> None:
    fixture = ready(is_v2=is_v2)
    fixture.open(P0)
    fixture.manager.add_offsets(GROUP, AT_5)
    if not is_v2:
        fixture.exchange(add_offsets_response())
    offsets = fixture.manager.next_request(has_incomplete=False)
    assert offsets is not None and offsets.highest_version == (5 if is_v2 else 4)
    assert offsets.group_id == "harbour"
    fixture.respond(txn_offset_commit_response({P0: E.NONE}))
    fixture.commit()
    end = fixture.manager.next_request(has_incomplete=False)
    assert end is not None and end.highest_version == (5 if is_v2 else 4)


def test_offsets_are_added_before_version_2_and_committed_with_the_member() -> None:
    fixture = ready()
    fixture.open()
    work = fixture.manager.add_offsets(GROUP, AT_5)
    assert isinstance(fixture.exchange(add_offsets_response()), AddOffsetsToTxnRequest)
    assert not work.is_complete
    message = fixture.exchange(txn_offset_commit_response({P0: E.NONE}))
    assert isinstance(message, TxnOffsetCommitRequest)
    assert (message.group_id, message.generation_id, message.member_id) == ("harbour", 3, "member")
    assert work.is_complete and work.error is None
    fixture.commit()
    assert isinstance(fixture.exchange(end_txn_response()), EndTxnRequest)


def test_offsets_with_a_member_need_a_broker_version_that_supports_them() -> None:
    fixture = ready(is_v2=True)
    fixture.open()
    fixture.manager.add_offsets(GROUP, AT_5)
    request = fixture.manager.next_request(has_incomplete=False)
    assert request is not None
    with pytest.raises(KafkaError) as caught:
        request.make(2)
    assert caught.value.code is E.UNSUPPORTED_VERSION


@BOTH_VERSIONS
def test_an_empty_transaction_ends_without_a_request(is_v2: bool) -> None:
    for end in ("commit", "abort"):
        fixture = ready(is_v2=is_v2)
        fixture.open()
        getattr(fixture, end)()
        assert fixture.next_request() is None
        fixture.manager.lifecycle.take_result()
        assert fixture.state is S.READY


def test_an_upgrade_to_version_2_gets_a_new_epoch_between_transactions() -> None:
    fixture = ready()
    fixture.open(P0)
    fixture.manager.begin_commit(is_v2=True)
    assert fixture.manager.next_request(has_incomplete=False).highest_version == 4
    fixture.respond(end_txn_response())
    assert not fixture.manager.lifecycle.is_idle
    message = fixture.exchange(init_producer_id_response(7, 1))
    assert isinstance(message, InitProducerIdRequest)
    assert (message.producer_id, message.producer_epoch) == (7, 0)
    fixture.manager.lifecycle.take_result()
    assert fixture.manager.is_v2 and fixture.manager.producer.producer_epoch == 1


# --- lost responses ---


@BOTH_VERSIONS
def test_a_commit_without_response_is_repeated_with_the_same_epoch(is_v2: bool) -> None:
    fixture = ready(is_v2=is_v2)
    fixture.open(P0)
    fixture.commit()
    first = fixture.next_request()
    assert fixture.manager.on_no_response(was_sent=True) is Step.RETRY
    assert fixture.next_request() == first


def test_before_version_2_a_lost_response_raises_the_epoch_to_fence_a_late_request() -> None:
    # KAFKA-17754
    fixture = ready()
    fixture.open(P0)
    fixture.commit()
    fixture.next_request()
    fixture.manager.on_no_response(was_sent=True)
    fixture.exchange(end_txn_response())
    assert not fixture.manager.lifecycle.is_idle, "the late EndTxn could still end the next transaction"
    message = fixture.exchange(init_producer_id_response(7, 1))
    assert (message.producer_id, message.producer_epoch) == (7, 0)
    fixture.manager.lifecycle.take_result()
    assert fixture.manager.producer.producer_epoch == 1


def test_an_unsent_batch_needs_no_new_epoch() -> None:
    fixture = ready()
    fixture.open(P0)
    fixture.commit()
    fixture.next_request()
    fixture.manager.on_no_response(was_sent=False)
    fixture.exchange(end_txn_response())
    assert fixture.state is S.READY


def test_an_abort_ends_a_transaction_that_a_lost_addition_may_have_started() -> None:
    for code in (E.NONE, E.INVALID_TXN_STATE):
        fixture = ready()
        fixture.manager.begin_transaction()
        put(fixture)
        fixture.next_request()
        fixture.manager.on_no_response(was_sent=True)
        fixture.abort()
        fixture.core.drop_unsent(KafkaError(E.OPERATION_NOT_ATTEMPTED))
        message = fixture.exchange(end_txn_response(code))
        assert isinstance(message, EndTxnRequest) and not message.committed
        fixture.exchange(init_producer_id_response(7, 1))
        fixture.manager.lifecycle.take_result()
        assert fixture.state is S.READY


def test_a_successful_commit_counts_although_the_next_epoch_is_unavailable() -> None:
    fixture = ready()
    fixture.open(P0)
    fixture.commit()
    fixture.next_request()
    fixture.manager.on_no_response(was_sent=True)
    fixture.exchange(end_txn_response())
    fixture.exchange(init_producer_id_response(code=E.PRODUCER_FENCED))
    fixture.manager.lifecycle.take_result()
    with pytest.raises(FatalTransactionError):
        fixture.manager.begin_transaction()


def test_no_transaction_begins_until_the_result_of_the_commit_was_received() -> None:
    fixture = ready()
    fixture.open(P0)
    fixture.commit()
    for attempt in (fixture.manager.begin_transaction, fixture.abort, fixture.manager.lifecycle.require_open):
        with pytest.raises(KafkaError, match="the result of commit_transaction is pending"):
            attempt()
    fixture.exchange(end_txn_response())
    with pytest.raises(KafkaError, match="the result of commit_transaction is pending"):
        fixture.manager.begin_transaction()
    assert fixture.manager.lifecycle.pending_operation is Operation.COMMIT
    fixture.manager.lifecycle.take_result()
    fixture.manager.begin_transaction()


# --- batches at the end of a transaction ---


def test_an_abort_discards_unsent_batches_and_waits_for_sent_ones() -> None:
    fixture = ready(is_v2=True)
    fixture.manager.begin_transaction()
    first = put(fixture, b"a" * 250)
    [batch] = drain(fixture.core, LEADERS, now_ms=20)
    second = put(fixture, b"b" * 250)
    fixture.abort()
    assert drain(fixture.core, LEADERS, now_ms=40) == []
    assert fixture.core.drop_unsent(KafkaError(E.OPERATION_NOT_ATTEMPTED, "aborted"))
    assert second.error is not None and second.error.code is E.OPERATION_NOT_ATTEMPTED
    assert fixture.next_request() is None, "a batch is in flight"
    fixture.core.on_result(batch, BatchResult(E.NONE, 0), 50)
    assert first.result is not None
    assert isinstance(fixture.exchange(end_txn_response(producer_id=7, producer_epoch=1)), EndTxnRequest)


def test_a_batch_in_retry_is_sent_during_an_abort_but_not_after_a_failed_one() -> None:
    fixture = ready(is_v2=True)
    fixture.manager.begin_transaction()
    put(fixture, b"a" * 250)
    [batch] = drain(fixture.core, LEADERS, now_ms=20)
    fixture.abort()
    fixture.core.on_result(batch, BatchResult(E.NOT_LEADER_OR_FOLLOWER), 30)
    [again] = drain(fixture.core, LEADERS, now_ms=500)
    assert again is batch
    fixture.core.on_result(batch, BatchResult(E.OUT_OF_ORDER_SEQUENCE_NUMBER), 510)
    assert not fixture.core.accumulator.incomplete


def test_a_batch_that_expires_unsent_fails_the_transaction_without_a_new_epoch() -> None:
    fixture = ready()
    fixture.manager.begin_transaction()
    put(fixture)
    fixture.exchange(add_partitions_response(P0))
    fixture.core.expire(5_000, no_connection_error)
    assert state_of(fixture) is S.ABORTABLE_ERROR
    fixture.abort()
    fixture.exchange(end_txn_response())
    assert state_of(fixture) is S.READY


def test_a_response_for_an_expired_batch_is_accepted_after_its_transaction() -> None:
    fixture = ready(is_v2=True)
    fixture.manager.begin_transaction()
    put(fixture)
    [batch] = drain(fixture.core, LEADERS, now_ms=20)
    fixture.core.expire(5_000, no_connection_error)
    assert state_of(fixture) is S.ABORTABLE_ERROR
    fixture.abort()
    fixture.exchange(end_txn_response(producer_id=7, producer_epoch=1))
    fixture.core.on_result(batch, BatchResult(E.NONE, 3), 6_000)
    assert state_of(fixture) is S.READY


def test_a_refused_record_prevents_the_commit_of_its_transaction() -> None:
    fixture = ready(is_v2=True)
    fixture.manager.begin_transaction()
    fixture.manager.on_send_failed(KafkaError(E.MESSAGE_TOO_LARGE, "a record of 9 bytes"))
    with pytest.raises(AbortableTransactionError, match="9 bytes"):
        fixture.commit()
    fixture.abort()
    assert fixture.next_request() is None
    assert fixture.state is S.READY


def test_a_producer_whose_state_expired_on_the_broker_continues_from_sequence_0() -> None:
    fixture = ready()
    fixture.open(P0)
    put(fixture, b"a" * 250)
    [first] = drain(fixture.core, LEADERS, now_ms=20)
    fixture.core.on_result(first, BatchResult(E.NONE, 0), 30)
    put(fixture, b"b" * 250)
    [second] = drain(fixture.core, LEADERS, now_ms=40)
    assert second.base_sequence == 1
    fixture.core.on_result(second, BatchResult(E.UNKNOWN_PRODUCER_ID, log_start_offset=10), 50)
    assert fixture.state is S.IN_TRANSACTION
    [again] = drain(fixture.core, LEADERS, now_ms=500)
    assert (again.base_sequence, again.producer.producer_epoch) == (0, 0)
