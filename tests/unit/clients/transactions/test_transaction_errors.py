"""The effect of each error code, in the responses of each API, on a transactional producer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.network.scripted_coordinators import GROUP
from tests.support.transactions.accumulators import P0, P1, drain
from tests.support.transactions.producers import (
    AT_5,
    BOTH_VERSIONS,
    LEADERS,
    TransactionalProducerFixture,
    add_offsets_response,
    add_partitions_response,
    add_partitions_results_response,
    end_txn_response,
    init_producer_id_response,
    put,
    ready,
    txn_offset_commit_response,
)
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.clients.producer.produce_core import BatchResult
from tidelog.clients.transactions.transaction_errors import AbortableTransactionError
from tidelog.clients.transactions.transaction_lifecycle import TransactionState
from tidelog.clients.transactions.transaction_manager import Step
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.end_txn import EndTxnRequest

S = TransactionState
E = ErrorCode
FENCED = (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH)


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
    fixture: TransactionalProducerFixture, message: Any, response: Any, code: ErrorCode, expected: Expected
) -> None:
    """Expect a step after which the same request is sent again, or a state with this error."""
    step = fixture.respond(response)
    if isinstance(expected, Step):
        assert step is expected
        assert fixture.next_request() == message
        return
    assert fixture.state is expected
    if expected is S.INITIALIZING:
        return
    assert fixture.manager.lifecycle.error is not None
    assert fixture.manager.lifecycle.error.code is (E.PRODUCER_FENCED if code in FENCED else code)


@cases(INIT)
def test_the_error_of_init_producer_id_determines_the_state(code: ErrorCode, expected: Expected) -> None:
    fixture = TransactionalProducerFixture(is_v2=False)
    fixture.manager.begin_init(is_v2=False)
    expect(fixture, fixture.next_request(), init_producer_id_response(-1, -1, code), code, expected)
    if fixture.state is S.UNINITIALIZED:
        with pytest.raises(KafkaError):
            fixture.manager.lifecycle.take_result()
        fixture.initialize()  # it may be allowed now


@cases(ADD_PARTITIONS)
def test_the_error_of_add_partitions_to_txn_determines_the_state(code: ErrorCode, expected: Expected) -> None:
    fixture = ready()
    fixture.manager.begin_transaction()
    fixture.manager.add_partition(P0)
    expect(fixture, fixture.next_request(), add_partitions_response(P0, code=code), code, expected)


@cases(ADD_OFFSETS)
def test_the_error_of_add_offsets_to_txn_determines_the_state(code: ErrorCode, expected: Expected) -> None:
    fixture = ready()
    fixture.open()
    work = fixture.manager.add_offsets(GROUP, AT_5)
    expect(fixture, fixture.next_request(), add_offsets_response(code), code, expected)
    assert (work.error is None) == isinstance(expected, Step)


@BOTH_VERSIONS
@cases(COMMIT_OFFSETS)
def test_the_error_of_txn_offset_commit_determines_the_state(
    code: ErrorCode, expected: Expected, is_v2: bool
) -> None:
    fixture = ready(is_v2=is_v2)
    fixture.open()
    work = fixture.manager.add_offsets(GROUP, AT_5)
    if not is_v2:
        fixture.exchange(add_offsets_response())
    expect(fixture, fixture.next_request(), txn_offset_commit_response({P0: code}), code, expected)
    assert (work.error is None) == isinstance(expected, Step)


@BOTH_VERSIONS
@cases(COMMIT)
def test_the_error_of_a_commit_determines_the_state(code: ErrorCode, expected: Expected, is_v2: bool) -> None:
    fixture = ready(is_v2=is_v2)
    fixture.open(P0)
    fixture.commit()
    expect(fixture, fixture.next_request(), end_txn_response(code), code, expected)
    if expected is S.ABORTABLE_ERROR:
        with pytest.raises(AbortableTransactionError):
            fixture.manager.lifecycle.take_result()
        fixture.abort()
        fixture.exchange(end_txn_response(producer_id=7 if is_v2 else -1, producer_epoch=1))


@BOTH_VERSIONS
@cases(ABORT)
def test_the_error_of_an_abort_determines_the_state(code: ErrorCode, expected: Expected, is_v2: bool) -> None:
    fixture = ready(is_v2=is_v2)
    fixture.open(P0)
    fixture.abort()
    expect(fixture, fixture.next_request(), end_txn_response(code), code, expected)


@BOTH_VERSIONS
@cases(BATCH)
def test_a_refused_batch_ends_the_transaction_or_the_producer(
    code: ErrorCode, expected: Expected, is_v2: bool
) -> None:
    fixture = ready(is_v2=is_v2)
    fixture.open(P0)
    written = put(fixture)
    [batch] = drain(fixture.core, LEADERS, now_ms=20)
    fixture.core.on_result(batch, BatchResult(code), 30)
    assert fixture.state is expected
    assert written.error is not None and written.error.code is code
    if expected is S.ABORTABLE_ERROR:
        fixture.abort()
        message = fixture.exchange(end_txn_response(producer_id=7 if is_v2 else -1, producer_epoch=1))
        assert isinstance(message, EndTxnRequest) and not message.committed
        assert fixture.state is (S.READY if is_v2 else S.INITIALIZING), "the next transaction has a new epoch"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, S.FATAL_ERROR),
        (E.UNSUPPORTED_VERSION, S.FATAL_ERROR),
        (E.GROUP_AUTHORIZATION_FAILED, S.ABORTABLE_ERROR),
        (E.TRANSACTION_ABORTABLE, S.ABORTABLE_ERROR),
    ],
)
def test_the_error_of_a_request_that_was_not_sent_determines_the_state(
    code: ErrorCode, expected: TransactionState
) -> None:
    fixture = ready(is_v2=True)
    fixture.open()
    work = fixture.manager.add_offsets(GROUP, AT_5)
    fixture.next_request()
    fixture.manager.on_not_sent(KafkaError(code, "no"))
    assert fixture.state is expected
    assert work.error is not None and work.error.code is code


def test_a_failed_batch_is_fatal_when_the_epoch_cannot_be_raised() -> None:
    fixture = ready(version=2)
    fixture.open(P0)
    put(fixture)
    [batch] = drain(fixture.core, LEADERS, now_ms=20)
    fixture.core.on_result(batch, BatchResult(E.OUT_OF_ORDER_SEQUENCE_NUMBER), 30)
    assert fixture.state is S.FATAL_ERROR


def test_operation_not_attempted_means_another_partition_failed() -> None:
    for code, expected in ((E.UNKNOWN_TOPIC_OR_PARTITION, None), (E.TOPIC_AUTHORIZATION_FAILED, P1)):
        fixture = ready()
        fixture.manager.begin_transaction()
        fixture.manager.add_partition(P0)
        fixture.manager.add_partition(P1)
        fixture.next_request()
        step = fixture.respond(add_partitions_results_response({P0: E.OPERATION_NOT_ATTEMPTED, P1: code}))
        if expected is None:
            assert step is Step.RETRY
        else:
            assert (
                fixture.manager.lifecycle.error is not None and fixture.manager.lifecycle.error.code is code
            )


def test_a_response_without_a_partition_is_not_a_success() -> None:
    fixture = ready()
    fixture.manager.begin_transaction()
    fixture.manager.add_partition(P0)
    fixture.manager.add_partition(P1)
    fixture.next_request()
    fixture.respond(add_partitions_response(P0))
    assert fixture.state is S.ABORTABLE_ERROR


def test_offsets_with_retriable_errors_are_sent_again_without_the_committed_ones() -> None:
    fixture = ready(is_v2=True)
    fixture.open()
    work = fixture.manager.add_offsets(GROUP, {P0: OffsetAndMetadata(5), P1: OffsetAndMetadata(6)})
    fixture.next_request()
    assert (
        fixture.respond(txn_offset_commit_response({P0: E.NONE, P1: E.NOT_COORDINATOR}))
        is Step.FIND_COORDINATOR
    )
    assert list(work.remaining) == [P1]
    fixture.exchange(txn_offset_commit_response({P1: E.NONE}))
    assert work.is_complete and work.error is None
