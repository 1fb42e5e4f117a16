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


def fixture_in(state: TransactionState, **fields: object) -> TransactionCoordinatorFixture:
    partitions = frozenset({A, B}) if state in (S.ONGOING, S.PREPARE_ABORT, S.PREPARE_COMMIT) else frozenset()
    fixture = TransactionCoordinatorFixture()
    fixture.put(**{"state": state, "partitions": partitions, "start_wall_ms": STARTED_MS, **fields})
    return fixture.start()


def outcome(fixture: TransactionCoordinatorFixture, epoch: int, is_commit: bool, version: int) -> object:
    """End a transaction; return the error, the decided state, or DONE if no decision was necessary."""
    written = len(fixture.log)
    try:
        fixture.end((7, epoch), is_commit, version)
    except Exception as error:
        return getattr(error, "code", error)
    return fixture.state if len(fixture.log) > written else DONE


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
    assert outcome(fixture_in(state), 3, True, 0) == commit
    assert outcome(fixture_in(state), 3, False, 0) == abort
    assert outcome(fixture_in(state), 2, True, 0) is FENCED
    assert outcome(fixture_in(state), 4, False, 0) is FENCED


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
    outcomes = [
        outcome(fixture_in(state), epoch, is_commit, 2) for is_commit in (True, False) for epoch in (3, 2)
    ]
    assert outcomes == [commit, commit_again, abort, abort_again]


@pytest.mark.parametrize("version", [0, 2])
def test_another_producer_id_is_refused(version: int) -> None:
    fixture = fixture_in(S.ONGOING)
    assert refusal(lambda: fixture.end((8, 3), True, version)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    empty = TransactionCoordinatorFixture().start()
    assert refusal(lambda: empty.end((7, 3), True, version)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_up_to_version_1_the_producer_keeps_its_epoch() -> None:
    fixture = fixture_in(S.ONGOING)
    assert fixture.end((7, 3), True, 0) == (-1, -1)
    marking = fixture.markings[-1]
    assert (marking.producer_epoch, marking.is_commit, marking.transaction_version) == (3, True, 0)
    assert marking.partitions == {A, B}
    fixture.mark()
    assert (fixture.state, fixture.metadata.producer_epoch) == (S.COMPLETE_COMMIT, 3)


def test_from_version_2_every_end_returns_the_next_epoch() -> None:
    fixture = fixture_in(S.ONGOING)
    assert fixture.end((7, 3), True) == (7, 4)
    marking = fixture.markings[-1]
    assert (marking.producer_epoch, marking.transaction_version) == (4, 2)
    fixture.mark()
    assert (fixture.state, fixture.metadata.producer_epoch, fixture.metadata.last_producer_epoch) == (
        S.COMPLETE_COMMIT,
        4,
        3,
    )
    assert fixture.end((7, 3), True) == (7, 4), "the response that was lost"
    fixture.add((7, 4), A)
    assert fixture.end((7, 4), False) == (7, 5)


def test_a_delayed_commit_does_not_end_the_next_transaction() -> None:
    """KAFKA-17754: up to version 1 it did, and ended only a part of that transaction."""
    fixture = fixture_in(S.ONGOING)
    fixture.end((7, 3), True)
    fixture.mark()
    fixture.add((7, 4), A)
    assert refusal(lambda: fixture.end((7, 3), True)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: fixture.end((7, 3), False)) is ErrorCode.PRODUCER_FENCED
    assert (fixture.state, fixture.metadata.partitions) == (S.ONGOING, frozenset({A}))


def test_an_abort_without_transaction_fences_late_requests() -> None:
    fixture = fixture_in(S.EMPTY)
    fixture.now_ms += 10
    assert fixture.end((7, 3), False) == (7, 4)
    assert (fixture.state, fixture.metadata.start_wall_ms) == (S.PREPARE_ABORT, fixture.now_ms)
    assert not fixture.markings, "no partition needs a marker"
    fixture.tick()
    assert (fixture.state, fixture.metadata.producer_epoch) == (S.COMPLETE_ABORT, 4)
    assert refusal(lambda: fixture.add((7, 3), A)) is ErrorCode.PRODUCER_FENCED


def test_an_exhausted_epoch_ends_with_a_new_producer_id_also_when_repeated() -> None:
    fixture = fixture_in(S.ONGOING, producer_epoch=EPOCH_MAX - 1)
    assert fixture.end((7, EPOCH_MAX - 1), True) == (101, 0)
    assert (fixture.markings[-1].producer_id, fixture.markings[-1].producer_epoch) == (7, EPOCH_MAX)
    fixture.mark()
    assert (fixture.metadata.producer_id, fixture.metadata.producer_epoch) == (101, 0)
    assert fixture.end((7, EPOCH_MAX - 1), True) == (101, 0)
    fixture.add((101, 0), A)
    assert fixture.end((101, 0), True) == (101, 1)


@pytest.mark.parametrize("marked_before", [True, False])
def test_a_new_coordinator_knows_the_new_producer_id_of_an_exhausted_epoch(marked_before: bool) -> None:
    fixture = fixture_in(S.ONGOING, producer_epoch=EPOCH_MAX - 1)
    fixture.end((7, EPOCH_MAX - 1), True)
    if marked_before:
        fixture.mark()
    fixture.fail_over(epoch=2)
    if not marked_before:
        assert fixture.markings[-1].coordinator_epoch == 2
        fixture.mark()
    assert fixture.end((7, EPOCH_MAX - 1), True) == (101, 0)


def test_an_uncommitted_end_is_concurrent_transactions() -> None:
    fixture = fixture_in(S.ONGOING)
    fixture.holds_commits = True
    fixture.end((7, 3), True)
    assert refusal(lambda: fixture.end((7, 3), True)) is CONCURRENT
    assert refusal(lambda: fixture.add((7, 3), A)) is CONCURRENT
    assert not fixture.markings, "another coordinator might not know of the commit"
    fixture.commit()
    assert fixture.markings[-1].is_commit


def test_a_failed_end_may_be_repeated() -> None:
    fixture = fixture_in(S.ONGOING)
    fixture.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert refusal(lambda: fixture.end((7, 3), True)) is ErrorCode.NOT_ENOUGH_REPLICAS
    fixture.append_error = None
    assert fixture.end((7, 3), True) == (7, 4)
