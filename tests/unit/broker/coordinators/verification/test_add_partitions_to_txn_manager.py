"""Verifications for one coordinator share requests; no caller waits forever."""

from __future__ import annotations

import asyncio
from typing import TypeVar, cast

import pytest

from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_manager import Replicas
from tests.support.transactions.scripted_coordinator import ScriptedCoordinator
from tests.support.waiting import TIMEOUT_S
from tidelog.broker.coordinators.verification.add_partitions_to_txn_manager import (
    REQUESTS_IN_FLIGHT,
    AddPartitionsToTxnManager,
)
from tidelog.broker.coordinators.verification.transaction import ClientSupport, ProducerTransaction
from tidelog.cluster.topic_names import TRANSACTION_STATE_TOPIC
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
)
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TRANSACTION = ProducerTransaction("tx", 7, 0, ClientSupport.ABORTABLE)


class UnresponsiveCoordinator:
    """A coordinator whose responses lack the transactions of the request."""

    async def request(self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        return cast(ResponseT, AddPartitionsToTxnResponse())


class IncompleteCoordinator:
    """A coordinator whose responses have the transaction, and none of its partitions."""

    async def request(self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        result = AddPartitionsToTxnResult(transactional_id=TRANSACTION.transactional_id)
        return cast(ResponseT, AddPartitionsToTxnResponse(results_by_transaction=(result,)))


class FailingChannel:
    """A channel with a bug."""

    async def request(self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        raise RuntimeError("a bug")


def manager_of(
    brokers: ScriptedCoordinator | UnresponsiveCoordinator | IncompleteCoordinator | FailingChannel,
) -> AddPartitionsToTxnManager:
    replicas = Replicas()
    replicas.register(1, 2)
    replicas.create(TRANSACTION_STATE_TOPIC, 3, isr=(2,), leader=2)
    return AddPartitionsToTxnManager(brokers, lambda: replicas.image, replicas.clock.monotonic_ms)


def transaction(name: str, epoch: int = 0) -> ProducerTransaction:
    """Return a transaction with this transactional id."""
    return TRANSACTION._replace(transactional_id=name, producer_epoch=epoch)


def requested_ids(coordinator: ScriptedCoordinator) -> list[list[str]]:
    """Return the transactional ids of each request."""
    return [[one.transactional_id for one in request.transactions] for _, request in coordinator.requests]


async def test_several_requests_are_in_flight_and_the_next_has_all_that_waits() -> None:
    coordinator = ScriptedCoordinator()
    coordinator.gate = asyncio.Event()
    manager = manager_of(coordinator)
    verifications = []
    for number in range(REQUESTS_IN_FLIGHT + 3):
        verifications.append(asyncio.ensure_future(manager.add_or_verify(transaction(f"id-{number}"), [T0])))
        await loop_iterations()
    in_flight = [[f"id-{number}"] for number in range(REQUESTS_IN_FLIGHT)]
    assert requested_ids(coordinator) == in_flight
    coordinator.gate.set()
    assert await asyncio.gather(*verifications) == [{}] * len(verifications)
    waited = [f"id-{REQUESTS_IN_FLIGHT + number}" for number in range(3)]
    assert requested_ids(coordinator) == [*in_flight, waited]


async def test_verifications_of_one_loop_iteration_share_a_request() -> None:
    coordinator = ScriptedCoordinator()
    manager = manager_of(coordinator)
    await asyncio.gather(*(manager.add_or_verify(transaction(name), [T0]) for name in ("a", "b", "c")))
    assert requested_ids(coordinator) == [["a", "b", "c"]]


async def test_verifications_of_a_transactional_id_are_sequential_and_merged() -> None:
    # The coordinator would refuse the second while the first is not committed.
    coordinator = ScriptedCoordinator()
    coordinator.gate = asyncio.Event()
    coordinator.refusals = {T1: ErrorCode.TRANSACTION_ABORTABLE}
    manager = manager_of(coordinator)
    verifications = []
    for epoch, partition in ((0, T0), (0, T1), (0, T0), (1, T0)):
        verifications.append(
            asyncio.ensure_future(manager.add_or_verify(transaction("tx", epoch), [partition]))
        )
        await loop_iterations()
    assert requested_ids(coordinator) == [["tx"]]
    coordinator.gate.set()
    assert await asyncio.gather(*verifications) == [{}, {T1: ErrorCode.TRANSACTION_ABORTABLE}, {}, {}]
    partitions = [
        (one.producer_epoch, one.topics[0].partitions) for one in coordinator.requested_transactions
    ]
    assert partitions == [(0, (0,)), (0, (1, 0)), (1, (0,))]


async def test_a_verification_of_a_disconnected_client_is_not_sent() -> None:
    coordinator = ScriptedCoordinator()
    coordinator.gate = asyncio.Event()
    manager = manager_of(coordinator)
    first = asyncio.ensure_future(manager.add_or_verify(transaction("tx"), [T0]))
    await loop_iterations()
    disconnected = asyncio.ensure_future(manager.add_or_verify(transaction("tx", 1), [T0]))
    following = asyncio.ensure_future(manager.add_or_verify(transaction("tx", 2), [T0]))
    await loop_iterations()
    disconnected.cancel()
    coordinator.gate.set()
    assert await first == await following == {}
    assert [one.producer_epoch for one in coordinator.requested_transactions] == [0, 2]


async def test_a_waiting_request_gets_a_retriable_error_when_the_node_stops() -> None:
    coordinator = ScriptedCoordinator()
    coordinator.gate = asyncio.Event()
    manager = manager_of(coordinator)
    first = asyncio.ensure_future(manager.add_or_verify(TRANSACTION, [T0]))
    await loop_iterations()
    second = asyncio.ensure_future(
        manager.add_or_verify(TRANSACTION._replace(transactional_id="other"), [T0])
    )
    await loop_iterations()
    await manager.close()
    assert await first == await second == {T0: ErrorCode.NETWORK_EXCEPTION}
    assert await manager.add_or_verify(TRANSACTION, [T0]) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_a_request_not_started_when_the_node_stops_does_not_delay_others() -> None:
    manager = manager_of(ScriptedCoordinator())
    verifications = asyncio.ensure_future(manager.add_or_verify(TRANSACTION, [T0]))
    # The verification is queued, then its request is scheduled; it would begin in the next turn.
    await loop_iterations(2)
    await manager.close()
    assert await asyncio.wait_for(verifications, TIMEOUT_S) == {T0: ErrorCode.NETWORK_EXCEPTION}


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        (UnresponsiveCoordinator(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (IncompleteCoordinator(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (FailingChannel(), ErrorCode.NETWORK_EXCEPTION),
    ],
    ids=["a response without the transaction", "a response without its partitions", "a bug"],
)
async def test_invalid_responses_verify_nothing(
    brokers: UnresponsiveCoordinator | IncompleteCoordinator | FailingChannel, expected: ErrorCode
) -> None:
    manager = manager_of(brokers)
    assert await manager.add_or_verify(TRANSACTION, [T0]) == {T0: expected}
    # Verifications of other transactions are not delayed.
    assert await manager.add_or_verify(TRANSACTION, [T0]) == {T0: expected}
    assert manager.failures == 2


async def test_a_verification_of_a_disconnected_client_does_not_delay_others() -> None:
    coordinator = ScriptedCoordinator()
    coordinator.gate = asyncio.Event()
    manager = manager_of(coordinator)
    disconnected = asyncio.ensure_future(manager.add_or_verify(TRANSACTION, [T0]))
    other = asyncio.ensure_future(manager.add_or_verify(TRANSACTION._replace(transactional_id="other"), [T0]))
    await loop_iterations()
    disconnected.cancel()
    coordinator.gate.set()
    assert await other == {}
