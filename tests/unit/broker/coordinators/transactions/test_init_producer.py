"""InitProducerId of a transactional id, in every state and with every possible epoch."""

from __future__ import annotations

import pytest

from tests.support.configs import transaction_config
from tests.support.states import state_of
from tests.support.transactions.coordinator import (
    ID,
    STARTED_MS,
    A,
    B,
    TransactionCoordinatorFixture,
    refusal,
)
from tidelog.broker.coordinators.transactions.metadata import EPOCH_MAX
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode

STATES_WITHOUT_TRANSACTION = [
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
]


def test_a_new_transactional_id_starts_with_epoch_0() -> None:
    assert TransactionCoordinatorFixture().start().init() == (101, 0)
    assert TransactionCoordinatorFixture().start().init((55, 9)) == (101, 0)


@pytest.mark.parametrize("state", STATES_WITHOUT_TRANSACTION)
def test_a_second_producer_gets_the_next_epoch_and_fences_the_first(state: TransactionState) -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.put(state=state, last_producer_epoch=2)
    fixture.start()
    assert fixture.init(timeout_ms=5_000) == (7, 4)
    assert (fixture.state, fixture.metadata.timeout_ms) == (TransactionState.EMPTY, 5_000)
    assert refusal(lambda: fixture.add((7, 3), A)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: fixture.init((7, 3))) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", STATES_WITHOUT_TRANSACTION)
def test_a_producer_that_continues_gets_the_next_epoch_and_may_repeat_its_request(
    state: TransactionState,
) -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.put(state=state)
    fixture.start()
    assert fixture.init((7, 3)) == (7, 4)
    assert fixture.init((7, 3)) == (7, 4)
    assert fixture.init((7, 4)) == (7, 5)
    assert refusal(lambda: fixture.init((7, 3))) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: fixture.init((8, 5))) is ErrorCode.PRODUCER_FENCED


def test_a_producer_with_an_exhausted_epoch_gets_a_new_id_and_may_repeat_its_request() -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.put(producer_epoch=EPOCH_MAX - 1)
    fixture.start()
    assert fixture.init((7, EPOCH_MAX - 1)) == (101, 0)
    assert fixture.init((7, EPOCH_MAX - 1)) == (101, 0)
    assert fixture.init() == (101, 1)
    assert refusal(lambda: fixture.init((7, EPOCH_MAX - 1))) is ErrorCode.PRODUCER_FENCED


def test_a_new_producer_of_an_exhausted_epoch_gets_a_new_id() -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.put(producer_epoch=EPOCH_MAX - 1)
    fixture.start()
    assert fixture.init() == (101, 0)


def test_an_old_epoch_of_an_exhausted_id_is_fenced() -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.put(producer_epoch=EPOCH_MAX - 1)
    fixture.start()
    assert refusal(lambda: fixture.init((7, 5))) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(("version", "epoch"), [(0, 4), (1, 4), (2, 5)])
def test_an_ongoing_transaction_is_aborted_first(version: int, epoch: int) -> None:
    fixture = TransactionCoordinatorFixture(transaction_version=version)
    fixture.put(state=TransactionState.ONGOING, partitions=frozenset({A, B}), start_wall_ms=STARTED_MS)
    fixture.start()
    assert fixture.init() == (-1, -1), "CONCURRENT_TRANSACTIONS"
    assert state_of(fixture) is TransactionState.PREPARE_ABORT
    assert fixture.metadata.producer_epoch == epoch
    [marking] = fixture.markings
    assert marking.partitions == {A, B}
    assert (marking.is_commit, marking.producer_epoch) == (False, epoch)
    assert marking.transaction_version == (2 if version == 2 else version)
    assert refusal(fixture.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    fixture.mark()
    assert state_of(fixture) is TransactionState.COMPLETE_ABORT
    assert fixture.init() == (7, epoch + 1)


def test_an_ongoing_transaction_of_another_id_is_unchanged() -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.put(state=TransactionState.ONGOING, partitions=frozenset({A}))
    fixture.start()
    assert refusal(lambda: fixture.init((8, 3))) is ErrorCode.PRODUCER_FENCED
    assert fixture.state is TransactionState.ONGOING


@pytest.mark.parametrize("version", [0, 2])
def test_a_producer_in_its_last_epoch_can_be_fenced_during_a_transaction(version: int) -> None:
    fixture = TransactionCoordinatorFixture(transaction_version=version)
    fixture.put(state=TransactionState.ONGOING, producer_epoch=EPOCH_MAX - 1, partitions=frozenset({A}))
    fixture.start()
    fixture.init()
    assert fixture.markings[0].producer_epoch == EPOCH_MAX
    fixture.mark()
    assert fixture.init() == (101, 0)


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_an_init_during_a_prepared_transaction_is_concurrent_transactions(state: TransactionState) -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.put(state=state, partitions=frozenset({A}))
    fixture.start()
    assert refusal(fixture.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    fixture.mark()
    assert fixture.init() == (7, 4)


def test_an_init_during_an_uncommitted_transition_is_concurrent_transactions() -> None:
    fixture = TransactionCoordinatorFixture().start()
    fixture.holds_commits = True
    assert fixture.init() == (101, 0)
    assert refusal(fixture.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    fixture.commit()
    assert fixture.init() == (101, 1)


def test_a_fencing_that_cannot_be_written_uses_no_epoch() -> None:
    fixture = TransactionCoordinatorFixture()
    fixture.put(state=TransactionState.ONGOING, partitions=frozenset({A}))
    fixture.start()
    fixture.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert refusal(fixture.init) is ErrorCode.NOT_ENOUGH_REPLICAS
    fixture.append_error = None
    fixture.init()
    assert fixture.metadata.producer_epoch == 5


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    fixture = TransactionCoordinatorFixture(transaction_config()).start()
    assert refusal(lambda: fixture.init(timeout_ms=timeout_ms)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert fixture.core.registry.get(ID) is None
