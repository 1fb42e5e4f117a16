"""The states of a transactional producer and their transitions."""

from __future__ import annotations

import itertools

import pytest

from tidelog.clients.transactions.transaction_errors import AbortableTransactionError, FatalTransactionError
from tidelog.clients.transactions.transaction_lifecycle import (
    TRANSITIONS,
    TransactionLifecycle,
    TransactionState,
)
from tidelog.protocol.errors import ErrorCode, KafkaError

S = TransactionState
PAIRS = list(itertools.product(S, S))


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda state: state.name)
def test_only_transitions_of_the_table_are_possible(
    source: TransactionState, target: TransactionState
) -> None:
    life = TransactionLifecycle("gauge")
    life.state = source
    if target in TRANSITIONS[source]:
        life._transition(target)
        assert life.state is target
    else:
        with pytest.raises(AssertionError):
            life._transition(target)


def test_the_table_equals_kafkas() -> None:
    # Kafka has two more: ABORTABLE_ERROR -> UNINITIALIZED and INITIALIZING -> ABORTABLE_ERROR are one
    # transition here. Here INITIALIZING also follows ABORTING; in Kafka that case has no new epoch.
    assert {
        source.name: sorted(target.name for target in targets) for source, targets in TRANSITIONS.items()
    } == {
        "UNINITIALIZED": ["FATAL_ERROR", "INITIALIZING"],
        "INITIALIZING": ["FATAL_ERROR", "READY", "UNINITIALIZED"],
        "READY": ["FATAL_ERROR", "IN_TRANSACTION"],
        "IN_TRANSACTION": ["ABORTABLE_ERROR", "ABORTING", "COMMITTING", "FATAL_ERROR"],
        "COMMITTING": ["ABORTABLE_ERROR", "FATAL_ERROR", "INITIALIZING", "READY"],
        "ABORTING": ["FATAL_ERROR", "INITIALIZING", "READY"],
        "ABORTABLE_ERROR": ["ABORTING", "FATAL_ERROR"],
        "FATAL_ERROR": [],
    }


def test_after_an_abortable_error_only_abort_is_possible() -> None:
    life = TransactionLifecycle("gauge")
    life.state = S.IN_TRANSACTION
    life.require_abort(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "may not")
    for expected in S:
        with pytest.raises(AbortableTransactionError, match="may not") as caught:
            life.require(expected, "anything")
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert life.can_abort


def test_the_first_abortable_error_of_a_transaction_is_reported() -> None:
    life = TransactionLifecycle("gauge")
    life.state = S.IN_TRANSACTION
    life.require_abort(ErrorCode.MESSAGE_TOO_LARGE, "first")
    life.require_abort(ErrorCode.REQUEST_TIMED_OUT, "second")
    assert str(life.error) == "first"


def test_a_fatal_error_is_kept_and_an_old_epoch_is_fenced() -> None:
    life = TransactionLifecycle("gauge")
    life.fail(ErrorCode.INVALID_PRODUCER_EPOCH, "old")
    life.fail(ErrorCode.INVALID_TXN_STATE, "later")
    with pytest.raises(FatalTransactionError, match="old") as caught:
        life.require(S.READY, "begin_transaction")
    assert caught.value.code is ErrorCode.PRODUCER_FENCED
    assert not life.can_abort


def test_a_call_in_the_wrong_state_names_it_and_changes_nothing() -> None:
    life = TransactionLifecycle("gauge")
    with pytest.raises(KafkaError, match="begin_transaction needs a producer in state READY") as caught:
        life.require(S.READY, "begin_transaction")
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    assert life.state is S.UNINITIALIZED


@pytest.mark.parametrize(
    ("state", "expected", "required_call"),
    [
        (S.UNINITIALIZED, S.READY, "init_transactions"),
        (S.UNINITIALIZED, S.IN_TRANSACTION, "init_transactions, then begin_transaction"),
        (S.READY, S.IN_TRANSACTION, "begin_transaction"),
        (S.IN_TRANSACTION, S.READY, "commit or abort"),
    ],
)
def test_a_call_in_the_wrong_order_names_the_required_call(
    state: TransactionState, expected: TransactionState, required_call: str
) -> None:
    life = TransactionLifecycle("gauge")
    life.state = state
    with pytest.raises(KafkaError, match=f"{required_call}.* first|{required_call}$"):
        life.require(expected, "that")
