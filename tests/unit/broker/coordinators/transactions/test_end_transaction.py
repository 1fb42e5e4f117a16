"""EndTxn in every state, with both transaction versions, the current and the previous epoch."""

from __future__ import annotations

import pytest

from tests.support.transactions.coordinator import STARTED_MS, A, B, TransactionCoordinatorFixture, refusal
from tidelog.broker.coordinators.transactions.metadata import EPOCH_MAX
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode

S = TransactionState
DONE = None
PREPARES = S.PREPARE_ABORT
INVALID, FENCED = ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def bench_in(state: TransactionState, **fields: object) -> TransactionCoordinatorFixture:
    partitions = frozenset({A, B}) if state in (S.ONGOING, S.PREPARE_ABORT, S.PREPARE_COMMIT) else frozenset()
    bench = TransactionCoordinatorFixture()
    bench.put(**{"state": state, "partitions": partitions, "start_wall_ms": STARTED_MS, **fields})
    return bench.start()


def outcome(bench: TransactionCoordinatorFixture, epoch: int, is_commit: bool, version: int) -> object:
    """The error, the state that was decided, or DONE when nothing had to be decided."""
    written = len(bench.log)
    try:
        bench.end((7, epoch), is_commit, version)
    except Exception as error:
        return getattr(error, "code", error)
    return bench.state if len(bench.log) > written else DONE


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (S.EMPTY, INVALID, INVALID),
        (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT),
        (S.PREPARE_COMMIT, CONCURRENT, CONCURRENT),
        (S.PREPARE_ABORT, CONCURRENT, CONCURRENT),
        (S.COMPLETE_COMMIT, DONE, INVALID),
        (S.COMPLETE_ABORT, INVALID, DONE),
    ],
)
def test_up_to_version_1_a_repeated_end_succeeds(
    state: TransactionState, commit: object, abort: object
) -> None:
    assert outcome(bench_in(state), 3, True, 0) == commit
    assert outcome(bench_in(state), 3, False, 0) == abort
    assert outcome(bench_in(state), 2, True, 0) is FENCED
    assert outcome(bench_in(state), 4, False, 0) is FENCED


@pytest.mark.parametrize(
    ("state", "commit", "commit_again", "abort", "abort_again"),
    [
        (S.EMPTY, INVALID, FENCED, PREPARES, FENCED),
        (S.ONGOING, S.PREPARE_COMMIT, FENCED, PREPARES, FENCED),
        (S.PREPARE_COMMIT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
        (S.PREPARE_ABORT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
        (S.COMPLETE_COMMIT, INVALID, DONE, PREPARES, INVALID),
        (S.COMPLETE_ABORT, INVALID, INVALID, PREPARES, DONE),
    ],
)
def test_from_version_2_the_epoch_distinguishes_an_end_from_its_repetition(
    state: TransactionState, commit: object, commit_again: object, abort: object, abort_again: object
) -> None:
    found = [outcome(bench_in(state), epoch, is_commit, 2) for is_commit in (True, False) for epoch in (3, 2)]
    assert found == [commit, commit_again, abort, abort_again]


@pytest.mark.parametrize("version", [0, 2])
def test_another_producer_id_is_refused(version: int) -> None:
    bench = bench_in(S.ONGOING)
    assert refusal(lambda: bench.end((8, 3), True, version)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    empty = TransactionCoordinatorFixture().start()
    assert refusal(lambda: empty.end((7, 3), True, version)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_up_to_version_1_the_producer_keeps_its_epoch() -> None:
    bench = bench_in(S.ONGOING)
    assert bench.end((7, 3), True, 0) == (-1, -1)
    marking = bench.markings[-1]
    assert (marking.producer_epoch, marking.is_commit, marking.transaction_version) == (3, True, 0)
    assert marking.partitions == {A, B}
    bench.mark()
    assert (bench.state, bench.metadata.producer_epoch) == (S.COMPLETE_COMMIT, 3)


def test_from_version_2_every_end_returns_the_next_epoch() -> None:
    bench = bench_in(S.ONGOING)
    assert bench.end((7, 3), True) == (7, 4)
    marking = bench.markings[-1]
    assert (marking.producer_epoch, marking.transaction_version) == (4, 2)
    bench.mark()
    assert (bench.state, bench.metadata.producer_epoch, bench.metadata.last_producer_epoch) == (
        S.COMPLETE_COMMIT,
        4,
        3,
    )
    assert bench.end((7, 3), True) == (7, 4), "the answer that was lost"
    bench.add((7, 4), A)
    assert bench.end((7, 4), False) == (7, 5)


def test_a_delayed_commit_does_not_end_the_next_transaction() -> None:
    """KAFKA-17754: up to version 1 it did, and half of that transaction was torn off."""
    bench = bench_in(S.ONGOING)
    bench.end((7, 3), True)
    bench.mark()
    bench.add((7, 4), A)
    assert refusal(lambda: bench.end((7, 3), True)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: bench.end((7, 3), False)) is ErrorCode.PRODUCER_FENCED
    assert (bench.state, bench.metadata.partitions) == (S.ONGOING, {A})


def test_an_abort_without_transaction_fences_late_requests() -> None:
    bench = bench_in(S.EMPTY)
    bench.now_ms += 10
    assert bench.end((7, 3), False) == (7, 4)
    assert (bench.state, bench.metadata.start_wall_ms) == (S.PREPARE_ABORT, bench.now_ms)
    assert not bench.markings, "there is nobody to tell"
    bench.tick()
    assert (bench.state, bench.metadata.producer_epoch) == (S.COMPLETE_ABORT, 4)
    assert refusal(lambda: bench.add((7, 3), A)) is ErrorCode.PRODUCER_FENCED


def test_an_exhausted_epoch_ends_with_a_new_producer_id_also_when_repeated() -> None:
    bench = bench_in(S.ONGOING, producer_epoch=EPOCH_MAX - 1)
    assert bench.end((7, EPOCH_MAX - 1), True) == (101, 0)
    assert (bench.markings[-1].producer_id, bench.markings[-1].producer_epoch) == (7, EPOCH_MAX)
    bench.mark()
    assert (bench.metadata.producer_id, bench.metadata.producer_epoch) == (101, 0)
    assert bench.end((7, EPOCH_MAX - 1), True) == (101, 0)
    bench.add((101, 0), A)
    assert bench.end((101, 0), True) == (101, 1)


@pytest.mark.parametrize("marked_before", [True, False])
def test_a_new_coordinator_knows_the_new_producer_id_of_an_exhausted_epoch(marked_before: bool) -> None:
    bench = bench_in(S.ONGOING, producer_epoch=EPOCH_MAX - 1)
    bench.end((7, EPOCH_MAX - 1), True)
    if marked_before:
        bench.mark()
    bench.fail_over(epoch=2)
    if not marked_before:
        assert bench.markings[-1].coordinator_epoch == 2
        bench.mark()
    assert bench.end((7, EPOCH_MAX - 1), True) == (101, 0)


def test_an_uncommitted_end_is_concurrent_transactions() -> None:
    bench = bench_in(S.ONGOING)
    bench.holds_commits = True
    bench.end((7, 3), True)
    assert refusal(lambda: bench.end((7, 3), True)) is CONCURRENT
    assert refusal(lambda: bench.add((7, 3), A)) is CONCURRENT
    assert not bench.markings, "another coordinator might not know of the commit"
    bench.commit()
    assert bench.markings[-1].is_commit


def test_a_failed_end_may_be_repeated() -> None:
    bench = bench_in(S.ONGOING)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert refusal(lambda: bench.end((7, 3), True)) is ErrorCode.NOT_ENOUGH_REPLICAS
    bench.append_error = None
    assert bench.end((7, 3), True) == (7, 4)
