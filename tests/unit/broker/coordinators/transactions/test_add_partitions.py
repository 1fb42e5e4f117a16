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


def bench_in(state: TransactionState, **fields: object) -> TransactionCoordinatorFixture:
    bench = TransactionCoordinatorFixture()
    bench.put(state=state, **fields)
    return bench.start()


@pytest.mark.parametrize("state", STATES_WITHOUT_TRANSACTION)
@pytest.mark.parametrize("version", [0, 2])
def test_the_first_added_partition_begins_the_transaction(state: TransactionState, version: int) -> None:
    bench = bench_in(state, start_wall_ms=STARTED_MS)
    bench.now_ms += 10
    bench.add((7, 3), A, version=version)
    metadata = bench.metadata
    assert (metadata.state, metadata.partitions) == (TransactionState.ONGOING, {A})
    assert (metadata.start_wall_ms, metadata.last_update_wall_ms) == (bench.now_ms, bench.now_ms)
    assert metadata.client_transaction_version == version


def test_added_partitions_keep_the_start_time_of_the_transaction() -> None:
    bench = bench_in(TransactionState.ONGOING, partitions=frozenset({A}), start_wall_ms=STARTED_MS)
    bench.add((7, 3), B)
    assert (bench.metadata.partitions, bench.metadata.start_wall_ms) == ({A, B}, STARTED_MS)


def test_partitions_added_twice_are_written_once() -> None:
    bench = bench_in(TransactionState.ONGOING, partitions=frozenset({A, B}))
    written = len(bench.log)
    bench.add((7, 3), A)
    assert len(bench.log) == written


@pytest.mark.parametrize("state", [*STATES_WITHOUT_TRANSACTION, TransactionState.ONGOING])
def test_another_producer_is_refused(state: TransactionState) -> None:
    bench = bench_in(state)
    assert refusal(lambda: bench.add((8, 3), A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: bench.add((7, 2), A)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: bench.add((7, 4), A)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", PREPARED)
def test_partitions_are_not_added_while_a_transaction_ends(state: TransactionState) -> None:
    bench = bench_in(state, partitions=frozenset({A}))
    assert refusal(lambda: bench.add((7, 3), B)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_unknown_transactional_id_is_refused() -> None:
    bench = TransactionCoordinatorFixture().start()
    assert refusal(lambda: bench.add((7, 3), A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: bench.verify((7, 3), A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_verification_accepts_added_partitions_and_makes_others_abort() -> None:
    bench = bench_in(TransactionState.ONGOING, partitions=frozenset({A}))
    assert bench.verify((7, 3), A, B) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize("state", STATES_WITHOUT_TRANSACTION)
def test_nothing_is_verified_without_a_transaction(state: TransactionState) -> None:
    assert bench_in(state).verify((7, 3), A) == [ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize("state", PREPARED)
def test_a_late_write_is_not_verified_while_its_transaction_ends(state: TransactionState) -> None:
    bench = bench_in(state, partitions=frozenset({A}))
    assert refusal(lambda: bench.verify((7, 3), A)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_another_producer_id_is_not_verified() -> None:
    bench = bench_in(TransactionState.ONGOING, partitions=frozenset({A}))
    assert refusal(lambda: bench.verify((8, 3), A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: bench.verify((7, 2), A)) is ErrorCode.PRODUCER_FENCED


def test_a_partition_is_not_verified_before_its_addition_is_committed() -> None:
    """A new coordinator might not know of it, and no marker would ever end what was written."""
    bench = bench_in(TransactionState.ONGOING, partitions=frozenset({A}))
    bench.holds_commits = True
    bench.add((7, 3), B)
    assert bench.verify((7, 3), A, B) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    bench.commit()
    assert bench.verify((7, 3), A, B) == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_delayed_produce_after_the_abort_is_not_verified() -> None:
    """KAFKA-14402: the records would hold the last stable offset for ever."""
    bench = bench_in(TransactionState.ONGOING, partitions=frozenset({A}))
    bench.end((7, 3), is_commit=False, version=0)
    bench.mark()
    assert bench.verify((7, 3), A) == [ErrorCode.TRANSACTION_ABORTABLE]
    bench.add((7, 3), B, version=0)
    assert bench.verify((7, 3), A, B) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
