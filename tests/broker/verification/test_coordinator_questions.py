"""Whatever a coordinator answers or does not, nobody who asks waits for ever."""

from __future__ import annotations

import asyncio
from typing import TypeVar, cast

import pytest

from broker.verification.coordinator_questions import CoordinatorQuestions
from broker.verification.transaction import ClientSupport, ProducerTransaction
from cluster.topic_names import TRANSACTION_STATE_TOPIC
from protocol.errors import ErrorCode
from protocol.ids import BrokerId, TopicPartition
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from protocol.schema import ApiMessage
from tests.support.replicas import Replicas
from tests.support.transaction_coordinators import ScriptedCoordinator
from tests.support.transactional_node import turns

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

T0 = TopicPartition("t", 0)
TRANSACTION = ProducerTransaction("tx", 7, 0, ClientSupport.ABORTABLE)


class SaysNothing:
    """A coordinator whose answers lack the transactions that were asked about."""

    async def request(self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        return cast(ResponseT, AddPartitionsToTxnResponse())


class Breaks:
    """A channel with a bug."""

    async def request(self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        raise RuntimeError("a bug")


def questions_to(brokers: ScriptedCoordinator | SaysNothing | Breaks) -> CoordinatorQuestions:
    replicas = Replicas()
    replicas.register(1, 2)
    replicas.create(TRANSACTION_STATE_TOPIC, 3, isr=(2,), leader=2)
    return CoordinatorQuestions(brokers, lambda: replicas.image)


async def test_who_waits_is_told_to_come_again_when_the_node_stops() -> None:
    coordinator = ScriptedCoordinator()
    coordinator.gate = asyncio.Event()
    questions = questions_to(coordinator)
    first = asyncio.ensure_future(questions.ask(TRANSACTION, [T0]))
    await turns()
    second = asyncio.ensure_future(questions.ask(TRANSACTION._replace(transactional_id="other"), [T0]))
    await turns()
    await questions.close()
    assert await first == await second == {T0: ErrorCode.NETWORK_EXCEPTION}
    assert await questions.ask(TRANSACTION, [T0]) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


@pytest.mark.parametrize(
    ("brokers", "told"),
    [(SaysNothing(), ErrorCode.UNKNOWN_SERVER_ERROR), (Breaks(), ErrorCode.NETWORK_EXCEPTION)],
    ids=["an answer that says nothing", "a bug"],
)
async def test_what_must_not_happen_lets_nothing_in(brokers: SaysNothing | Breaks, told: ErrorCode) -> None:
    questions = questions_to(brokers)
    assert await questions.ask(TRANSACTION, [T0]) == {T0: told}
    # And it does not keep others from being asked about.
    assert await questions.ask(TRANSACTION, [T0]) == {T0: told}
    assert questions.failures == 2


async def test_a_question_whose_asker_has_gone_keeps_nobody_else_waiting() -> None:
    coordinator = ScriptedCoordinator()
    coordinator.gate = asyncio.Event()
    questions = questions_to(coordinator)
    gone = asyncio.ensure_future(questions.ask(TRANSACTION, [T0]))
    other = asyncio.ensure_future(questions.ask(TRANSACTION._replace(transactional_id="other"), [T0]))
    await turns()
    gone.cancel()
    coordinator.gate.set()
    assert await other == {}
