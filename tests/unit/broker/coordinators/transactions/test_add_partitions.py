"""AddPartitionsToTxn and the verification of partitions, in every state."""

from __future__ import annotations

import pytest

from tests.support.transactions.coordinator import STARTED_MS, A, B, TransactionCoordinatorFixture, refusal
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode

STATES_WITHOUT_TRANSACTION = [
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
]
PREPARED = [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT]


def fixture_in(state: TransactionState, **fields: object) -> TransactionCoordinatorFixture:
    fixture = TransactionCoordinatorFixture()
    fixture.put(state=state, **fields)
    return fixture.start()


@pytest.mark.parametrize("state", STATES_WITHOUT_TRANSACTION)
@pytest.mark.parametrize("version", [0, 2])
def test_the_first_added_partition_begins_the_transaction(state: TransactionState, version: int) -> None:
    fixture = fixture_in(state, start_wall_ms=STARTED_MS)
    fixture.now_ms += 10
    fixture.add((7, 3), A, version=version)
    metadata = fixture.metadata
    assert (metadata.state, metadata.partitions) == (TransactionState.ONGOING, frozenset({A}))
    assert (metadata.start_wall_ms, metadata.last_update_wall_ms) == (fixture.now_ms, fixture.now_ms)
    assert metadata.client_transaction_version == version


def test_added_partitions_keep_the_start_time_of_the_transaction() -> None:
    fixture = fixture_in(TransactionState.ONGOING, partitions=frozenset({A}), start_wall_ms=STARTED_MS)
    fixture.add((7, 3), B)
    assert (fixture.metadata.partitions, fixture.metadata.start_wall_ms) == (frozenset({A, B}), STARTED_MS)


def test_partitions_added_twice_are_written_once() -> None:
    fixture = fixture_in(TransactionState.ONGOING, partitions=frozenset({A, B}))
    written = len(fixture.log)
    fixture.add((7, 3), A)
    assert len(fixture.log) == written


@pytest.mark.parametrize("state", [*STATES_WITHOUT_TRANSACTION, TransactionState.ONGOING])
def test_another_producer_is_refused(state: TransactionState) -> None:
    fixture = fixture_in(state)
    assert refusal(lambda: fixture.add((8, 3), A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: fixture.add((7, 2), A)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: fixture.add((7, 4), A)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", PREPARED)
def test_partitions_are_not_added_while_a_transaction_ends(state: TransactionState) -> None:
    fixture = fixture_in(state, partitions=frozenset({A}))
    assert refusal(lambda: fixture.add((7, 3), B)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_unknown_transactional_id_is_refused() -> None:
    fixture = TransactionCoordinatorFixture().start()
    assert refusal(lambda: fixture.add((7, 3), A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: fixture.verify((7, 3), A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_verification_accepts_added_partitions_and_makes_others_abort() -> None:
    fixture = fixture_in(TransactionState.ONGOING, partitions=frozenset({A}))
    assert fixture.verify((7, 3), A, B) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize("state", STATES_WITHOUT_TRANSACTION)
def test_nothing_is_verified_without_a_transaction(state: TransactionState) -> None:
    assert fixture_in(state).verify((7, 3), A) == [ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize("state", PREPARED)
def test_a_late_write_is_not_verified_while_its_transaction_ends(state: TransactionState) -> None:
    fixture = fixture_in(state, partitions=frozenset({A}))
    assert refusal(lambda: fixture.verify((7, 3), A)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_another_producer_id_is_not_verified() -> None:
    fixture = fixture_in(TransactionState.ONGOING, partitions=frozenset({A}))
    assert refusal(lambda: fixture.verify((8, 3), A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: fixture.verify((7, 2), A)) is ErrorCode.PRODUCER_FENCED


def test_a_partition_is_not_verified_before_its_addition_is_committed() -> None:
    """A new coordinator might not have the partition, and no marker would end the transaction there."""
    fixture = fixture_in(TransactionState.ONGOING, partitions=frozenset({A}))
    fixture.holds_commits = True
    fixture.add((7, 3), B)
    assert fixture.verify((7, 3), A, B) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    fixture.commit()
    assert fixture.verify((7, 3), A, B) == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_delayed_produce_after_the_abort_is_not_verified() -> None:
    """KAFKA-14402: the records would hold the last stable offset forever."""
    fixture = fixture_in(TransactionState.ONGOING, partitions=frozenset({A}))
    fixture.end((7, 3), is_commit=False, version=0)
    fixture.mark()
    assert fixture.verify((7, 3), A) == [ErrorCode.TRANSACTION_ABORTABLE]
    fixture.add((7, 3), B, version=0)
    assert fixture.verify((7, 3), A, B) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
