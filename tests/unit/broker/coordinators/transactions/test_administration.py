"""Transactions are described and listed by state, producer, age and pattern."""

from __future__ import annotations

import pytest

from tests.support.transactions.coordinator import ID, A, B, TransactionCoordinatorFixture
from tidelog.broker.coordinators.shared.regular_expression import RegularExpression
from tidelog.broker.coordinators.transactions.administration import TransactionFilter
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.steps import run_steps

ONGOING = TransactionState.ONGOING


def ongoing_transaction() -> TransactionCoordinatorFixture:
    fixture = TransactionCoordinatorFixture()
    fixture.put(
        state=ONGOING, partitions=frozenset({A, B, A._replace(partition=4)}), start_wall_ms=fixture.now_ms
    )
    return fixture.start()


def test_a_transactional_id_is_described_with_its_transaction() -> None:
    described = ongoing_transaction().core.describe(ID)
    assert (described.error_code, described.transaction_state) == (0, "Ongoing")
    assert (described.producer_id, described.producer_epoch) == (7, 3)
    assert (described.transaction_timeout_ms, described.transaction_start_time_ms) == (60_000, 1_000_000)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", (0, 4)), ("b", (1,))]


def test_an_unknown_transactional_id_is_not_found() -> None:
    assert ongoing_transaction().core.describe("other").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("wanted", "is_listed"),
    [
        (TransactionFilter(), True),
        (TransactionFilter(states=frozenset({ONGOING})), True),
        (TransactionFilter(states=frozenset()), False),
        (TransactionFilter(states=frozenset({TransactionState.EMPTY})), False),
        (TransactionFilter(producer_ids={7, 8}), True),
        (TransactionFilter(producer_ids={8}), False),
        (TransactionFilter(duration_ms=99), True),
        (TransactionFilter(duration_ms=100), False),
        (TransactionFilter(pattern=RegularExpression("t.*s")), True),
        (TransactionFilter(pattern=RegularExpression("t")), False),
    ],
)
def test_filters_restrict_the_list(wanted: TransactionFilter, is_listed: bool) -> None:
    fixture = ongoing_transaction()
    fixture.now_ms += 100
    listed = run_steps(fixture.core.list(wanted, fixture.now()))
    assert [one.transactional_id for one in listed] == ([ID] if is_listed else [])
