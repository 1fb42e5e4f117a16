"""The transaction coordinator of a node: leadership, loading, time, and responses after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import transaction_config
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import STEPS_PER_SLICE, Turns, counted_slices, loop_iterations
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


class Bench:
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
        """A transaction of one partition whose commit is decided."""
        producer = await self.init()
        await self.service.add_partitions(ID, producer, [A], 2)
        await self.service.end_transaction(ID, producer, True, 2)

    def state(self) -> str:
        return self.service.describe(ID).transaction_state


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    made.service.start()
    yield made
    await made.service.stop()


@pytest.fixture
async def patient() -> AsyncIterator[Bench]:
    """One whose requests do not time out."""
    made = Bench(replace(CONFIG, request_timeout_ms=30_000))
    made.service.start()
    yield made
    await made.service.stop()


async def refused(work: object) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        await work  # type: ignore[misc]
    return error.value.code


async def test_a_transaction_is_written_to_the_log(bench: Bench) -> None:
    await bench.lead()
    await bench.prepare()
    [marking] = bench.markings
    assert (marking.coordinator_epoch, bench.state()) == (3, "PrepareCommit")
    bench.service.on_markers_written(marking, [A])
    assert bench.state() == "CompleteCommit"
    [listed] = run_steps(bench.service.list(TransactionFilter()))
    assert listed.transactional_id == ID


async def test_partitions_added_by_two_brokers_at_once_are_both_added(patient: Bench) -> None:
    # The coordinator of Kafka refuses the second, CONCURRENT_TRANSACTIONS, until the first is committed.
    await patient.lead()
    producer = await patient.init()
    patient.log.holds_commits = True
    adding = [
        asyncio.ensure_future(patient.service.add_partitions(ID, producer, [each], 2)) for each in (A, B)
    ]
    for number in range(2):
        await loop_iterations()
        assert [each.done() for each in adding] == [number > 0, False]
        patient.log.commit_all()
    await asyncio.gather(*adding)
    assert [topic.topic for topic in patient.service.describe(ID).topics] == [A.topic, B.topic]


async def test_a_partition_is_not_added_while_markers_are_being_written(patient: Bench) -> None:
    await patient.lead()
    await patient.prepare()
    adding = patient.service.add_partitions(ID, ProducerIdAndEpoch(100, 1), [A], 2)
    assert await refused(adding) is ErrorCode.CONCURRENT_TRANSACTIONS


async def test_a_partition_that_waits_too_long_to_be_added_is_a_retriable_error(
    bench: Bench,
) -> None:
    await bench.lead()
    producer = await bench.init()
    bench.log.holds_commits = True
    adding = [bench.service.add_partitions(ID, producer, [each], 2) for each in (A, B)]
    codes = await asyncio.gather(*map(refused, adding))
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS]


async def test_a_request_that_waits_to_add_a_partition_gets_not_coordinator(
    patient: Bench,
) -> None:
    await patient.lead()
    producer = await patient.init()
    patient.log.holds_commits = True
    adding = [
        asyncio.ensure_future(patient.service.add_partitions(ID, producer, [each], 2)) for each in (A, B)
    ]
    await loop_iterations()
    patient.service.on_resignation(0)
    assert [await refused(each) for each in adding] == [ErrorCode.NOT_COORDINATOR] * 2


async def test_requests_for_partitions_of_others_or_in_loading_are_refused(bench: Bench) -> None:
    assert await refused(bench.init()) is ErrorCode.NOT_COORDINATOR
    assert bench.service.describe(ID).error_code == ErrorCode.NOT_COORDINATOR
    bench.log.read_gate = asyncio.Event()
    bench.service.on_leadership(0)
    assert await refused(bench.init()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(KafkaError):
        run_steps(bench.service.list(TransactionFilter()))
    bench.log.read_gate.set()
    await bench.lead()
    assert await refused(bench.service.init_producer("", TIMEOUT_MS, None)) is ErrorCode.INVALID_REQUEST
    assert await bench.init() == (100, 0)


async def test_a_new_leader_epoch_reloads_the_partition_and_writes_markers_with_it(bench: Bench) -> None:
    await bench.lead()
    await bench.prepare()
    former = bench.markings[-1]
    bench.service.on_leadership(0)
    assert len(bench.markings) == 1, "the same epoch changes nothing"
    bench.epoch = 4
    await bench.lead()
    await eventually(lambda: len(bench.markings) == 2)
    assert former.is_cancelled
    assert bench.markings[-1].coordinator_epoch == 4
    bench.service.on_markers_written(former, [A])
    assert bench.state() == "PrepareCommit"
    bench.service.on_markers_written(bench.markings[-1], [A])
    assert bench.state() == "CompleteCommit"


async def test_markers_of_a_partition_that_has_moved_are_cancelled(bench: Bench) -> None:
    await bench.lead()
    await bench.prepare()
    bench.service.on_resignation(0)
    [marking] = bench.markings
    assert marking.is_cancelled
    bench.service.on_markers_written(marking, [A])
    assert bench.service.describe(ID).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_response_waits_for_the_commit_up_to_its_timeout(bench: Bench) -> None:
    await bench.lead()
    bench.log.holds_commits = True
    assert await refused(bench.init()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await refused(bench.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.log.commit_all()
    await eventually(lambda: bench.state() == "Empty")
    asking = asyncio.create_task(bench.init())
    await eventually(lambda: bench.log.held)
    bench.log.commit_all()
    assert await asking == (100, 1)


async def test_an_append_lost_with_the_leadership_decides_nothing(bench: Bench) -> None:
    """KAFKA-13574: it is answered so that the producer asks the next coordinator, and nobody is told."""
    await bench.lead()
    producer = await bench.init()
    await bench.service.add_partitions(ID, producer, [A], 2)
    bench.log.holds_commits = True
    ending = asyncio.create_task(bench.service.end_transaction(ID, producer, True, 2))
    await eventually(lambda: bench.log.held)
    bench.log.batches[0].pop()
    bench.log.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert await refused(ending) is ErrorCode.NOT_COORDINATOR
    await eventually(lambda: bench.state() == "Ongoing")
    assert not bench.markings


async def test_timeouts_and_expiration_are_checked_at_their_intervals(bench: Bench) -> None:
    await bench.lead()
    producer = await bench.init()
    await bench.service.add_partitions(ID, producer, [A], 2)
    bench.timer.pass_time(TIMEOUT_MS + CONFIG.transaction_abort_timed_out_transaction_cleanup_interval_ms)
    await eventually(lambda: bench.state() == "PrepareAbort")
    bench.service.on_markers_written(bench.markings[-1], [A])
    assert bench.service.state_counts().total() == 1
    bench.timer.pass_time(CONFIG.transactional_id_expiration_ms)
    bench.timer.pass_time(CONFIG.transaction_remove_expired_transaction_cleanup_interval_ms)
    await eventually(lambda: bench.service.state_counts().total() == 0)


async def test_matching_transactional_ids_by_pattern_yields_to_others(bench: Bench) -> None:
    """Thousands of ids with a long pattern would hold the loop for seconds."""
    await bench.lead()
    for number in range(100):
        await bench.service.init_producer(f"id-{number}", TIMEOUT_MS, None)
    turns, slices = Turns(), counted_slices()
    wanted = TransactionFilter(pattern=RegularExpression("id-[02]"))
    listed = await slices.complete(bench.service.list(wanted))
    turns.stop()
    assert {found.transactional_id for found in listed} == {"id-0", "id-2"}
    assert turns.count >= 100 // STEPS_PER_SLICE - 2
