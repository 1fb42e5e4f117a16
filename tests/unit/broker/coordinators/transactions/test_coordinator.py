"""Markers, completion, timeouts, expiration, and takeover by a new coordinator."""

from __future__ import annotations

import pytest

from tests.support.configs import transaction_config
from tests.support.states import state_of
from tests.support.transactions.coordinator import (
    ID,
    TIMEOUT_MS,
    A,
    B,
    TransactionCoordinatorFixture,
    refusal,
)
from tidelog.broker.coordinators.transactions.coordinator import ABORT_RETRY_MS, COMPLETION_RETRY_MS
from tidelog.broker.coordinators.transactions.states import (
    NEXT_STATES,
    STATE_OF_STATUS,
    STATES_WITHOUT_TRANSACTION,
    TransactionState,
)
from tidelog.broker.coordinators.transactions.timeouts import TIMEOUT_OF_TWO_PHASE_COMMIT
from tidelog.protocol.errors import ErrorCode, KafkaError

S = TransactionState


def ongoing_transaction(**fields: object) -> TransactionCoordinatorFixture:
    fixture = TransactionCoordinatorFixture()
    fixture.put(
        **{"state": S.ONGOING, "partitions": frozenset({A, B}), "start_wall_ms": fixture.now_ms, **fields}
    )
    return fixture.start()


def test_states_have_kafkas_numbers_and_only_dead_is_final() -> None:
    names = [STATE_OF_STATUS[number].value for number in range(8)]
    assert names == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert [state for state, following in NEXT_STATES.items() if not following] == [S.DEAD]


def test_a_transaction_is_complete_when_every_partition_has_its_marker() -> None:
    fixture = ongoing_transaction()
    fixture.end((7, 3), True)
    fixture.mark([A])
    assert state_of(fixture) is S.PREPARE_COMMIT
    assert [topic.topic for topic in fixture.core.describe(ID).topics] == ["b"]
    fixture.mark([B])
    assert state_of(fixture) is S.COMPLETE_COMMIT
    assert not fixture.metadata.partitions


def test_repeated_marker_results_complete_the_transaction_once() -> None:
    fixture = ongoing_transaction()
    fixture.end((7, 3), True)
    fixture.holds_commits = True
    fixture.mark()
    written = len(fixture.log)
    fixture.mark()
    fixture.commit()
    fixture.mark()
    assert (len(fixture.log), fixture.state) == (written, S.COMPLETE_COMMIT)


def test_markers_of_an_earlier_transaction_do_not_complete_the_next() -> None:
    fixture = ongoing_transaction()
    fixture.end((7, 3), True)
    first = fixture.markings[-1]
    fixture.mark()
    fixture.add((7, 4), A)
    fixture.end((7, 4), False)
    fixture.write(fixture.core.on_markers_written(first, [A], fixture.now()))
    assert fixture.state is S.PREPARE_ABORT


def test_a_failed_write_of_the_completion_is_retried() -> None:
    """KAFKA-16352: the transaction stayed prepared, and its producers waited forever."""
    fixture = ongoing_transaction()
    fixture.end((7, 3), True)
    fixture.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        fixture.mark()
    for _ in range(2):
        assert fixture.core.next_deadline_ms() == fixture.now_ms + COMPLETION_RETRY_MS
        fixture.tick()
        fixture.now_ms += COMPLETION_RETRY_MS
        with pytest.raises(KafkaError):
            fixture.tick()
    fixture.append_error = None
    fixture.now_ms += COMPLETION_RETRY_MS
    fixture.tick()
    assert (fixture.state, fixture.core.next_deadline_ms()) == (S.COMPLETE_COMMIT, None)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_new_coordinator_completes_prepared_transactions(is_commit: bool) -> None:
    """redpanda#6018, redpanda#3501, KAFKA-16352: every partition gets a marker in the new epoch."""
    fixture = ongoing_transaction()
    fixture.end((7, 3), is_commit)
    fixture.mark([A])
    former = fixture.markings[-1]
    fixture.fail_over(epoch=2)
    marking = fixture.markings[-1]
    assert former.is_cancelled
    assert (marking.coordinator_epoch, marking.is_commit) == (2, is_commit)
    assert marking.partitions == {A, B}
    assert (marking.producer_epoch, marking.transaction_version) == (4, 2)
    fixture.mark()
    assert fixture.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)


def test_a_new_coordinator_loads_ongoing_transactions_with_their_partitions() -> None:
    """redpanda#6018: a coordinator that had lost it committed only the offsets."""
    fixture = TransactionCoordinatorFixture().start()
    producer = fixture.init()
    fixture.add(producer, A)
    fixture.add(producer, B)
    fixture.fail_over(epoch=2)
    assert fixture.verify(producer, A, B) == [ErrorCode.NONE, ErrorCode.NONE]
    fixture.end(producer, True)
    assert fixture.markings[-1].partitions == {A, B}


def test_a_new_coordinator_completes_prepared_transactions_without_partitions() -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.put(state=S.PREPARE_ABORT, client_transaction_version=2)
    fixture.start()
    assert fixture.state is S.COMPLETE_ABORT


def test_a_commit_without_response_gets_one_from_the_new_coordinator() -> None:
    """redpanda#3501: the response for a committed transaction was an error."""
    fixture = ongoing_transaction()
    fixture.end((7, 3), True)
    fixture.fail_over(epoch=2)
    assert refusal(lambda: fixture.end((7, 3), True)) is ErrorCode.CONCURRENT_TRANSACTIONS
    fixture.mark()
    assert fixture.end((7, 3), True) == (7, 4)


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    fixture = ongoing_transaction()
    fixture.now_ms += TIMEOUT_MS
    fixture.look_for_timeouts()
    assert state_of(fixture) is S.ONGOING
    fixture.now_ms += 1
    fixture.look_for_timeouts()
    assert state_of(fixture) is S.PREPARE_ABORT
    assert fixture.markings[-1].producer_epoch == 5
    fixture.look_for_timeouts()
    fixture.mark()
    assert state_of(fixture) is S.COMPLETE_ABORT
    assert refusal(lambda: fixture.end((7, 3), True)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: fixture.end((7, 3), True, version=0)) is ErrorCode.PRODUCER_FENCED


def test_a_new_coordinator_aborts_transactions_that_timed_out_during_failover() -> None:
    fixture = ongoing_transaction()
    fixture.now_ms += TIMEOUT_MS
    fixture.fail_over(epoch=2)
    assert state_of(fixture) is S.ONGOING
    fixture.now_ms += 1
    fixture.fail_over(epoch=3)
    assert state_of(fixture) is S.PREPARE_ABORT
    assert (fixture.markings[-1].coordinator_epoch, fixture.markings[-1].is_commit) == (3, False)


def test_the_timeout_starts_with_the_transaction_regardless_of_coordinator_changes() -> None:
    fixture = TransactionCoordinatorFixture().start()
    producer = fixture.init()
    fixture.add(producer, A)
    for epoch in range(2, 6):
        fixture.now_ms += TIMEOUT_MS // 4
        fixture.fail_over(epoch)
        fixture.add(producer, A, B)
    assert state_of(fixture) is S.ONGOING
    fixture.now_ms += 1
    fixture.look_for_timeouts()
    assert state_of(fixture) is S.PREPARE_ABORT


def test_a_failed_write_of_an_abort_is_retried_before_the_next_regular_check() -> None:
    # Too few replicas may be in sync for a moment only, between two failovers.
    fixture = ongoing_transaction()
    fixture.now_ms += TIMEOUT_MS + 1
    fixture.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        fixture.look_for_timeouts()
    assert fixture.core.next_deadline_ms() == fixture.now_ms + ABORT_RETRY_MS
    fixture.now_ms += ABORT_RETRY_MS
    with pytest.raises(KafkaError):
        fixture.tick()
    fixture.append_error = None
    fixture.now_ms += ABORT_RETRY_MS
    fixture.tick()
    assert (fixture.state, fixture.core.next_deadline_ms()) == (S.PREPARE_ABORT, None)


def test_a_two_phase_commit_transaction_has_no_timeout() -> None:
    fixture = ongoing_transaction(timeout_ms=TIMEOUT_OF_TWO_PHASE_COMMIT)
    fixture.now_ms += 2 * TIMEOUT_OF_TWO_PHASE_COMMIT
    fixture.look_for_timeouts()
    assert fixture.state is S.ONGOING


STATES_WITHOUT = sorted(STATES_WITHOUT_TRANSACTION, key=lambda state: state.status)


@pytest.mark.parametrize("state", STATES_WITHOUT)
def test_an_inactive_transactional_id_expires(state: TransactionState) -> None:
    fixture = TransactionCoordinatorFixture(transaction_config(transactional_id_expiration_ms=1_000))
    fixture.put(state=state)
    fixture.start()
    fixture.now_ms += 999
    fixture.expire()
    assert fixture.core.registry.get(ID) is not None
    fixture.now_ms += 1
    fixture.holds_commits = True
    fixture.expire()
    assert refusal(fixture.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    fixture.commit()
    fixture.holds_commits = False
    assert fixture.log[-1] == (ID, None)
    assert fixture.core.describe(ID).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert fixture.init((7, 3)) == (101, 0)


@pytest.mark.parametrize("state", [S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_a_transactional_id_with_a_transaction_does_not_expire(state: TransactionState) -> None:
    fixture = TransactionCoordinatorFixture(transaction_config(transactional_id_expiration_ms=1_000))
    fixture.put(state=state, partitions=frozenset({A}))
    fixture.start()
    fixture.now_ms += 10_000
    fixture.expire()
    assert fixture.state is state


def test_a_coordinator_that_resigned_writes_nothing() -> None:
    fixture = ongoing_transaction()
    fixture.end((7, 3), True)
    fixture.core.resign()
    fixture.mark()
    assert fixture.core.next_deadline_ms() is None
    assert fixture.log[-1].metadata is not None
    assert fixture.log[-1].metadata.state is S.PREPARE_COMMIT
