"""Markers, completion, timeouts, expiration, and takeover by a new coordinator."""

from __future__ import annotations

import pytest

from tests.support.configs import transaction_config
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


def ongoing(**fields: object) -> TransactionCoordinatorFixture:
    bench = TransactionCoordinatorFixture()
    bench.put(
        **{"state": S.ONGOING, "partitions": frozenset({A, B}), "start_wall_ms": bench.now_ms, **fields}
    )
    return bench.start()


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
    bench = ongoing()
    bench.end((7, 3), True)
    bench.mark([A])
    assert bench.state is S.PREPARE_COMMIT
    assert [topic.topic for topic in bench.core.describe(ID).topics] == ["b"]
    bench.mark([B])
    assert bench.state is S.COMPLETE_COMMIT
    assert not bench.metadata.partitions


def test_repeated_marker_results_complete_the_transaction_once() -> None:
    bench = ongoing()
    bench.end((7, 3), True)
    bench.holds_commits = True
    bench.mark()
    written = len(bench.log)
    bench.mark()
    bench.commit()
    bench.mark()
    assert (len(bench.log), bench.state) == (written, S.COMPLETE_COMMIT)


def test_markers_of_an_earlier_transaction_do_not_complete_the_next() -> None:
    bench = ongoing()
    bench.end((7, 3), True)
    first = bench.markings[-1]
    bench.mark()
    bench.add((7, 4), A)
    bench.end((7, 4), False)
    bench.write(bench.core.on_markers_written(first, [A], bench.now()))
    assert bench.state is S.PREPARE_ABORT


def test_a_failed_write_of_the_completion_is_retried() -> None:
    """KAFKA-16352: else the id would stay prepared, and its producers be told to wait, for ever."""
    bench = ongoing()
    bench.end((7, 3), True)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        bench.mark()
    for _ in range(2):
        assert bench.core.next_deadline_ms() == bench.now_ms + COMPLETION_RETRY_MS
        bench.tick()
        bench.now_ms += COMPLETION_RETRY_MS
        with pytest.raises(KafkaError):
            bench.tick()
    bench.append_error = None
    bench.now_ms += COMPLETION_RETRY_MS
    bench.tick()
    assert (bench.state, bench.core.next_deadline_ms()) == (S.COMPLETE_COMMIT, None)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_new_coordinator_completes_prepared_transactions(is_commit: bool) -> None:
    """redpanda#6018, redpanda#3501, KAFKA-16352: every partition is told, and in the new epoch."""
    bench = ongoing()
    bench.end((7, 3), is_commit)
    bench.mark([A])
    former = bench.markings[-1]
    bench.fail_over(epoch=2)
    marking = bench.markings[-1]
    assert former.is_cancelled
    assert (marking.coordinator_epoch, marking.is_commit, marking.partitions) == (2, is_commit, {A, B})
    assert (marking.producer_epoch, marking.transaction_version) == (4, 2)
    bench.mark()
    assert bench.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)


def test_a_new_coordinator_loads_ongoing_transactions_with_their_partitions() -> None:
    """redpanda#6018: one that had forgotten it committed the offsets alone."""
    bench = TransactionCoordinatorFixture().start()
    producer = bench.init()
    bench.add(producer, A)
    bench.add(producer, B)
    bench.fail_over(epoch=2)
    assert bench.verify(producer, A, B) == [ErrorCode.NONE, ErrorCode.NONE]
    bench.end(producer, True)
    assert bench.markings[-1].partitions == {A, B}


def test_a_new_coordinator_completes_prepared_transactions_without_partitions() -> None:
    bench = TransactionCoordinatorFixture()
    bench.put(state=S.PREPARE_ABORT, client_transaction_version=2)
    bench.start()
    assert bench.state is S.COMPLETE_ABORT


def test_a_commit_without_response_is_answered_by_the_new_coordinator() -> None:
    """redpanda#3501: a transaction that was committed was answered as if it had failed."""
    bench = ongoing()
    bench.end((7, 3), True)
    bench.fail_over(epoch=2)
    assert refusal(lambda: bench.end((7, 3), True)) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.mark()
    assert bench.end((7, 3), True) == (7, 4)


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    bench = ongoing()
    bench.now_ms += TIMEOUT_MS
    bench.look_for_timeouts()
    assert bench.state is S.ONGOING
    bench.now_ms += 1
    bench.look_for_timeouts()
    assert bench.state is S.PREPARE_ABORT
    assert bench.markings[-1].producer_epoch == 5
    bench.look_for_timeouts()
    bench.mark()
    assert bench.state is S.COMPLETE_ABORT
    assert refusal(lambda: bench.end((7, 3), True)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: bench.end((7, 3), True, version=0)) is ErrorCode.PRODUCER_FENCED


def test_a_new_coordinator_aborts_transactions_that_timed_out_during_failover() -> None:
    bench = ongoing()
    bench.now_ms += TIMEOUT_MS
    bench.fail_over(epoch=2)
    assert bench.state is S.ONGOING
    bench.now_ms += 1
    bench.fail_over(epoch=3)
    assert bench.state is S.PREPARE_ABORT
    assert (bench.markings[-1].coordinator_epoch, bench.markings[-1].is_commit) == (3, False)


def test_the_timeout_starts_with_the_transaction_regardless_of_coordinator_changes() -> None:
    bench = TransactionCoordinatorFixture().start()
    producer = bench.init()
    bench.add(producer, A)
    for epoch in range(2, 6):
        bench.now_ms += TIMEOUT_MS // 4
        bench.fail_over(epoch)
        bench.add(producer, A, B)
    assert bench.state is S.ONGOING
    bench.now_ms += 1
    bench.look_for_timeouts()
    assert bench.state is S.PREPARE_ABORT


def test_a_failed_write_of_an_abort_is_retried_before_the_next_regular_check() -> None:
    # Too few replicas may be in sync for a moment only, between two failovers.
    bench = ongoing()
    bench.now_ms += TIMEOUT_MS + 1
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        bench.look_for_timeouts()
    assert bench.core.next_deadline_ms() == bench.now_ms + ABORT_RETRY_MS
    bench.now_ms += ABORT_RETRY_MS
    with pytest.raises(KafkaError):
        bench.tick()
    bench.append_error = None
    bench.now_ms += ABORT_RETRY_MS
    bench.tick()
    assert (bench.state, bench.core.next_deadline_ms()) == (S.PREPARE_ABORT, None)


def test_a_two_phase_commit_transaction_has_no_timeout() -> None:
    bench = ongoing(timeout_ms=TIMEOUT_OF_TWO_PHASE_COMMIT)
    bench.now_ms += 2 * TIMEOUT_OF_TWO_PHASE_COMMIT
    bench.look_for_timeouts()
    assert bench.state is S.ONGOING


STATES_WITHOUT = sorted(STATES_WITHOUT_TRANSACTION, key=lambda state: state.status)


@pytest.mark.parametrize("state", STATES_WITHOUT)
def test_an_inactive_transactional_id_expires(state: TransactionState) -> None:
    bench = TransactionCoordinatorFixture(transaction_config(transactional_id_expiration_ms=1_000))
    bench.put(state=state)
    bench.start()
    bench.now_ms += 999
    bench.expire()
    assert bench.core.registry.get(ID) is not None
    bench.now_ms += 1
    bench.holds_commits = True
    bench.expire()
    assert refusal(bench.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.commit()
    bench.holds_commits = False
    assert bench.log[-1] == (ID, None)
    assert bench.core.describe(ID).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert bench.init((7, 3)) == (101, 0)


@pytest.mark.parametrize("state", [S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_a_transactional_id_with_a_transaction_does_not_expire(state: TransactionState) -> None:
    bench = TransactionCoordinatorFixture(transaction_config(transactional_id_expiration_ms=1_000))
    bench.put(state=state, partitions=frozenset({A}))
    bench.start()
    bench.now_ms += 10_000
    bench.expire()
    assert bench.state is state


def test_a_coordinator_that_resigned_writes_nothing() -> None:
    bench = ongoing()
    bench.end((7, 3), True)
    bench.core.resign()
    bench.mark()
    assert bench.core.next_deadline_ms() is None
    assert bench.log[-1].metadata is not None
    assert bench.log[-1].metadata.state is S.PREPARE_COMMIT
