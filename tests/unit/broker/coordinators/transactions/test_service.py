"""The transaction coordinator of a node: leadership, loading, time, and responses after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import transaction_config
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import STEPS_PER_SLICE, IterationCounter, counted_slices, loop_iterations
from tests.support.transactions.coordinator import ID, TIMEOUT_MS, A, B
from tests.support.waiting import eventually
from tidelog.broker.coordinators.shared.regular_expression import RegularExpression
from tidelog.broker.coordinators.transactions.administration import TransactionFilter
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.broker.coordinators.transactions.service import TransactionPorts, TransactionService
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import run_steps

CONFIG = transaction_config(
    request_timeout_ms=30,
    transactional_id_expiration_ms=100_000,
    transaction_remove_expired_transaction_cleanup_interval_ms=50_000,
)


class TransactionServiceFixture:
    def __init__(self, config: TransactionConfig = CONFIG) -> None:
        self.log = MemoryStateLog(1)
        self.timer = VirtualTime()
        self.markings: list[PreparedTransaction] = []
        self.epoch = 3
        self.ids = iter(range(100, 200))
        self.service = TransactionService(
            config,
            self.log,
            self.timer,
            self.timer,
            TransactionPorts(
                leader_epoch=lambda _: self.epoch,
                transaction_version=lambda: 2,
                new_producer_id=self._new_id,
                send_markers=self.markings.append,
            ),
        )

    async def _new_id(self) -> int:
        return next(self.ids)

    async def lead(self) -> None:
        self.service.on_leadership(0)
        await eventually(
            lambda: self.service.describe("x").error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )

    async def init(self) -> ProducerIdAndEpoch:
        return await self.service.init_producer(ID, TIMEOUT_MS, None)

    async def prepare(self) -> None:
        """Decide the commit of a transaction of one partition."""
        producer = await self.init()
        await self.service.add_partitions(ID, producer, [A], 2)
        await self.service.end_transaction(ID, producer, True, 2)

    def state(self) -> str:
        return self.service.describe(ID).transaction_state


@pytest.fixture
async def fixture() -> AsyncIterator[TransactionServiceFixture]:
    fixture = TransactionServiceFixture()
    fixture.service.start()
    yield fixture
    await fixture.service.stop()


@pytest.fixture
async def service_without_timeouts() -> AsyncIterator[TransactionServiceFixture]:
    """Return a service whose requests do not time out."""
    fixture = TransactionServiceFixture(replace(CONFIG, request_timeout_ms=30_000))
    fixture.service.start()
    yield fixture
    await fixture.service.stop()


async def expect_error(work: object) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        await work  # type: ignore[misc]
    return error.value.code


async def test_a_transaction_is_written_to_the_log(fixture: TransactionServiceFixture) -> None:
    await fixture.lead()
    await fixture.prepare()
    [marking] = fixture.markings
    assert (marking.coordinator_epoch, fixture.state()) == (3, "PrepareCommit")
    fixture.service.on_markers_written(marking, [A])
    assert fixture.state() == "CompleteCommit"
    [listed] = run_steps(fixture.service.list(TransactionFilter()))
    assert listed.transactional_id == ID


async def test_partitions_added_by_two_brokers_at_once_are_both_added(
    service_without_timeouts: TransactionServiceFixture,
) -> None:
    # The coordinator of Kafka refuses the second, CONCURRENT_TRANSACTIONS, until the first is committed.
    await service_without_timeouts.lead()
    producer = await service_without_timeouts.init()
    service_without_timeouts.log.holds_commits = True
    adding = [
        asyncio.ensure_future(service_without_timeouts.service.add_partitions(ID, producer, [each], 2))
        for each in (A, B)
    ]
    for number in range(2):
        await loop_iterations()
        assert [each.done() for each in adding] == [number > 0, False]
        service_without_timeouts.log.commit_all()
    await asyncio.gather(*adding)
    assert [topic.topic for topic in service_without_timeouts.service.describe(ID).topics] == [
        A.topic,
        B.topic,
    ]


async def test_a_partition_is_not_added_while_markers_are_being_written(
    service_without_timeouts: TransactionServiceFixture,
) -> None:
    await service_without_timeouts.lead()
    await service_without_timeouts.prepare()
    adding = service_without_timeouts.service.add_partitions(ID, ProducerIdAndEpoch(100, 1), [A], 2)
    assert await expect_error(adding) is ErrorCode.CONCURRENT_TRANSACTIONS


async def test_a_partition_that_waits_too_long_to_be_added_is_a_retriable_error(
    fixture: TransactionServiceFixture,
) -> None:
    await fixture.lead()
    producer = await fixture.init()
    fixture.log.holds_commits = True
    adding = [fixture.service.add_partitions(ID, producer, [each], 2) for each in (A, B)]
    codes = await asyncio.gather(*map(expect_error, adding))
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS]


async def test_a_request_that_waits_to_add_a_partition_gets_not_coordinator(
    service_without_timeouts: TransactionServiceFixture,
) -> None:
    await service_without_timeouts.lead()
    producer = await service_without_timeouts.init()
    service_without_timeouts.log.holds_commits = True
    adding = [
        asyncio.ensure_future(service_without_timeouts.service.add_partitions(ID, producer, [each], 2))
        for each in (A, B)
    ]
    await loop_iterations()
    service_without_timeouts.service.on_resignation(0)
    assert [await expect_error(each) for each in adding] == [ErrorCode.NOT_COORDINATOR] * 2


async def test_requests_for_partitions_of_others_or_in_loading_are_refused(
    fixture: TransactionServiceFixture,
) -> None:
    assert await expect_error(fixture.init()) is ErrorCode.NOT_COORDINATOR
    assert fixture.service.describe(ID).error_code == ErrorCode.NOT_COORDINATOR
    fixture.log.read_gate = asyncio.Event()
    fixture.service.on_leadership(0)
    assert await expect_error(fixture.init()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(KafkaError):
        run_steps(fixture.service.list(TransactionFilter()))
    fixture.log.read_gate.set()
    await fixture.lead()
    assert (
        await expect_error(fixture.service.init_producer("", TIMEOUT_MS, None)) is ErrorCode.INVALID_REQUEST
    )
    assert await fixture.init() == (100, 0)


async def test_a_new_leader_epoch_reloads_the_partition_and_writes_markers_with_it(
    fixture: TransactionServiceFixture,
) -> None:
    await fixture.lead()
    await fixture.prepare()
    former = fixture.markings[-1]
    fixture.service.on_leadership(0)
    assert len(fixture.markings) == 1, "the same epoch changes nothing"
    fixture.epoch = 4
    await fixture.lead()
    await eventually(lambda: len(fixture.markings) == 2)
    assert former.is_cancelled
    assert fixture.markings[-1].coordinator_epoch == 4
    fixture.service.on_markers_written(former, [A])
    assert fixture.state() == "PrepareCommit"
    fixture.service.on_markers_written(fixture.markings[-1], [A])
    assert fixture.state() == "CompleteCommit"


async def test_markers_of_a_partition_that_has_moved_are_cancelled(
    fixture: TransactionServiceFixture,
) -> None:
    await fixture.lead()
    await fixture.prepare()
    fixture.service.on_resignation(0)
    [marking] = fixture.markings
    assert marking.is_cancelled
    fixture.service.on_markers_written(marking, [A])
    assert fixture.service.describe(ID).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_response_waits_for_the_commit_up_to_its_timeout(fixture: TransactionServiceFixture) -> None:
    await fixture.lead()
    fixture.log.holds_commits = True
    assert await expect_error(fixture.init()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await expect_error(fixture.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    fixture.log.commit_all()
    await eventually(lambda: fixture.state() == "Empty")
    asking = asyncio.create_task(fixture.init())
    await eventually(lambda: fixture.log.held)
    fixture.log.commit_all()
    assert await asking == (100, 1)


async def test_an_append_lost_with_the_leadership_decides_nothing(fixture: TransactionServiceFixture) -> None:
    """KAFKA-13574: the producer gets an error that sends it to the next coordinator; no marker is written."""
    await fixture.lead()
    producer = await fixture.init()
    await fixture.service.add_partitions(ID, producer, [A], 2)
    fixture.log.holds_commits = True
    ending = asyncio.create_task(fixture.service.end_transaction(ID, producer, True, 2))
    await eventually(lambda: fixture.log.held)
    fixture.log.batches[0].pop()
    fixture.log.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert await expect_error(ending) is ErrorCode.NOT_COORDINATOR
    await eventually(lambda: fixture.state() == "Ongoing")
    assert not fixture.markings


async def test_timeouts_and_expiration_are_checked_at_their_intervals(
    fixture: TransactionServiceFixture,
) -> None:
    await fixture.lead()
    producer = await fixture.init()
    await fixture.service.add_partitions(ID, producer, [A], 2)
    fixture.timer.pass_time(TIMEOUT_MS + CONFIG.transaction_abort_timed_out_transaction_cleanup_interval_ms)
    await eventually(lambda: fixture.state() == "PrepareAbort")
    fixture.service.on_markers_written(fixture.markings[-1], [A])
    assert fixture.service.state_counts().total() == 1
    fixture.timer.pass_time(CONFIG.transactional_id_expiration_ms)
    fixture.timer.pass_time(CONFIG.transaction_remove_expired_transaction_cleanup_interval_ms)
    await eventually(lambda: fixture.service.state_counts().total() == 0)


async def test_matching_transactional_ids_by_pattern_yields_to_others(
    fixture: TransactionServiceFixture,
) -> None:
    """Thousands of ids with a long pattern would block the event loop for seconds."""
    await fixture.lead()
    for number in range(100):
        await fixture.service.init_producer(f"id-{number}", TIMEOUT_MS, None)
    turns, slices = IterationCounter(), counted_slices()
    wanted = TransactionFilter(pattern=RegularExpression("id-[02]"))
    listed = await slices.complete(fixture.service.list(wanted))
    turns.stop()
    assert {transaction.transactional_id for transaction in listed} == {"id-0", "id-2"}
    assert turns.count >= 100 // STEPS_PER_SLICE - 2
