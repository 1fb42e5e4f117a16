"""The driver: effects in order, none before it is durable, one shared fsync, final failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import metadata_log_config
from tests.support.disks.crash_file_system import CrashFileSystem
from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.yields import loop_iterations
from tests.support.metadata.stores import DIRECTORY, InlineExecutor
from tests.support.waiting import eventually, remains
from tidelog.broker.raft.driver import RaftDriver
from tidelog.broker.raft.log import MetadataLog
from tidelog.broker.raft.state_file import QuorumStateFile
from tidelog.broker.raft.steps import MachineSteps
from tidelog.cluster.quorum.effects import (
    AppendRejected,
    Effect,
    HighWatermark,
    LeaderChanged,
    Persist,
    RecordsAppended,
    Respond,
    Send,
    SnapshotLoaded,
)
from tidelog.cluster.quorum.events import Append, Event, PersistCompleted, RequestReceived, Resign, Tick
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.vote import VoteRequest, VoteResponse


class Script:
    """A machine whose effects the test defines, and which records its events."""

    kraft_version = 1
    voter_ids: tuple[int, ...] = (1,)

    def __init__(self) -> None:
        self.deadline_ms: int | None = None
        self.events: list[Event] = []
        self.react: Callable[[Event], list[Effect]] = lambda event: []

    def upgrade_rejection(self, epoch: int) -> str | None:
        return None

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        self.events.append(event)
        return self.react(event)


class Bench:
    """A driver of a script; `reported` has the calls of its listener and sender in order."""

    def __init__(self) -> None:
        self.disk = CrashFileSystem()
        self.executor = InlineExecutor()
        self.script = Script()
        self.reported: list[Any] = []
        self.fatal: list[BaseException] = []
        self.clock = ManualClock()
        self.log = MetadataLog.open(self.disk, DIRECTORY, metadata_log_config(), self.clock)
        self.state_file = QuorumStateFile(self.disk, self.log.directory)
        self.steps = MachineSteps(self.script, self.clock)
        self.driver = RaftDriver(
            self.steps,
            self.log,
            self.state_file,
            listener=self,
            sender=self,
            executor=self.executor,
            on_fatal=self.fatal.append,
        )

    def send(self, request: Send) -> None:
        self.reported.append(request)

    def on_leader_changed(self, epoch: int, leader: int | None) -> None:
        self.reported.append(("leader", epoch, leader))

    def on_committed(self, offset: int) -> None:
        self.reported.append(("committed", offset))

    def on_snapshot_loaded(self, snapshot_id: SnapshotId) -> None:
        self.reported.append(("snapshot", snapshot_id))

    async def settle(self) -> None:
        """Run the event loop until nothing more happens."""
        await loop_iterations(20)

    async def run(self) -> None:
        self.driver.start()
        await self.settle()


def on(kind: type[Event], *effects: Effect) -> Callable[[Event], list[Effect]]:
    return lambda event: list(effects) if isinstance(event, kind) else []


RECORD = QuorumRecord(leader_epoch=3, leader_id=1)
SEND = Send(1, 2, (), VoteRequest())


@on_both_loops
async def test_effects_are_performed_in_order_after_they_are_durable() -> None:
    bench = Bench()
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    bench.executor.held = True
    bench.script.react = on(
        Tick,
        LeaderChanged(2, None),
        Persist(7, RECORD, None),
        SEND,
        Respond(answer, VoteResponse()),
        LeaderChanged(3, 1),
        SnapshotLoaded(SnapshotId(5, 2)),
        HighWatermark(9),
    )
    await bench.run()
    assert bench.reported == [("leader", 2, None)]
    assert not answer.done()
    bench.executor.release()
    await bench.settle()
    expected = [SEND, ("leader", 3, 1), ("snapshot", SnapshotId(5, 2)), ("committed", 9)]
    assert bench.reported == [("leader", 2, None), *expected]
    assert await answer == VoteResponse()
    assert bench.state_file.read() == RECORD
    assert bench.script.events == [Tick(), PersistCompleted(7)]
    await bench.driver.stop()


@on_both_loops
async def test_events_wait_during_an_fsync_and_share_the_next() -> None:
    bench = Bench()
    bench.executor.held = True
    tickets = iter(range(1, 100))

    def react(event: Event) -> list[Effect]:
        if isinstance(event, Tick | RequestReceived):
            ticket = next(tickets)
            record = QuorumRecord(leader_epoch=ticket)
            return [Persist(ticket, record, 0), LeaderChanged(ticket, None)]
        return []

    bench.script.react = react
    await bench.run()
    for _ in range(3):
        bench.steps.post(RequestReceived(None, VoteRequest()))
    await bench.settle()
    assert bench.script.events == [Tick()]
    assert bench.executor.waiting_count == 1
    bench.executor.release()
    await bench.settle()
    assert bench.executor.run_count == 2
    assert bench.reported == [("leader", ticket, None) for ticket in (1, 2, 3, 4)]
    assert [event.ticket for event in bench.script.events if isinstance(event, PersistCompleted)] == [
        1,
        2,
        3,
        4,
    ]
    assert bench.state_file.read() == QuorumRecord(leader_epoch=4)
    await bench.driver.stop()


@on_both_loops
async def test_an_append_has_its_result_within_its_callback() -> None:
    bench = Bench()

    def react(event: Event) -> list[Effect]:
        if not isinstance(event, Append):
            return []
        if event.epoch != 5:
            return [AppendRejected(event.context, "another epoch")]
        return [HighWatermark(1), RecordsAppended(event.context, 10, 11, 5), Persist(1, None, None)]

    bench.script.react = react
    outcome: list[object] = []

    def turn() -> None:
        outcome.append(bench.steps.append([b"a", b"b"], 5))
        try:
            bench.steps.append([b"c"], 4)
        except KafkaError as error:
            outcome.append(error.code)

    await bench.run()
    bench.steps.schedule(turn)
    await bench.settle()
    appended, refused = outcome
    assert isinstance(appended, RecordsAppended)
    assert (appended.base_offset, appended.last_offset, appended.epoch) == (10, 11, 5)
    assert refused is ErrorCode.NOT_CONTROLLER
    assert bench.reported == [("committed", 1)]
    await bench.driver.stop()


@on_both_loops
async def test_an_error_in_an_append_ends_the_quorum_although_the_command_ignores_it() -> None:
    """Otherwise the active controller would continue with an image that differs from its log."""
    bench = Bench()

    def react(event: Event) -> list[Effect]:
        if isinstance(event, Append):
            raise AssertionError("half of it is in the log")
        return []

    def turn() -> None:
        with suppress(AssertionError):
            bench.steps.append([b"a"], 5)

    bench.script.react = react
    await bench.run()
    bench.steps.schedule(turn)
    await bench.settle()
    assert [str(error) for error in bench.fatal] == ["half of it is in the log"]
    await bench.driver.stop()


@on_both_loops
@pytest.mark.parametrize("voters", [(1,), (1, 2, 3)])
async def test_a_leader_with_a_full_disk_resigns_if_there_are_other_voters(voters: tuple[int, ...]) -> None:
    """The only voter does not resign: no other node could lead, and a smaller append may fit."""
    bench = Bench()
    bench.script.voter_ids = voters

    def react(event: Event) -> list[Effect]:
        if isinstance(event, Append):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on the disk")
        return []

    codes: list[ErrorCode] = []

    def turn() -> None:
        with pytest.raises(KafkaError) as error:
            bench.steps.append([b"a"], 5)
        codes.append(error.value.code)

    bench.script.react = react
    await bench.run()
    bench.steps.schedule(turn)
    await bench.settle()
    is_alone = len(voters) == 1
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR if is_alone else ErrorCode.NOT_CONTROLLER]
    assert (Resign() in bench.script.events) is not is_alone
    assert bench.fatal == []
    await bench.driver.stop()


@on_both_loops
async def test_a_callback_waits_for_the_current_fsync() -> None:
    bench = Bench()
    bench.executor.held = True
    bench.script.react = on(Tick, Persist(1, RECORD, None))
    await bench.run()
    turns: list[int] = []
    bench.steps.schedule(lambda: turns.append(1))
    await bench.settle()
    assert turns == []
    bench.executor.release()
    await bench.settle()
    assert turns == [1]
    await bench.driver.stop()


@on_both_loops
@pytest.mark.parametrize("is_ticked", [True, False])
async def test_after_a_pause_loss_of_leadership_is_reported_before_any_callback(is_ticked: bool) -> None:
    """Otherwise a former controller would answer the heartbeats that have waited."""
    bench = Bench()

    def resign(event: Event) -> list[Effect]:
        if not isinstance(event, Tick):
            return []
        bench.script.deadline_ms = None
        return [LeaderChanged(6, None)]

    await bench.run()
    bench.script.react = resign
    bench.script.deadline_ms = bench.clock.monotonic_ms() + 100
    bench.clock.now_ms += 60_000
    seen: list[list[Any]] = []
    if is_ticked:
        bench.steps.post(Tick())
    bench.steps.schedule(lambda: seen.append(list(bench.reported)))
    await bench.settle()
    assert seen == [[("leader", 6, None)]]
    await bench.driver.stop()


@on_both_loops
@pytest.mark.parametrize("path_part", ["quorum-state", "__cluster_metadata-0"])
async def test_a_failed_sync_is_final(path_part: str) -> None:
    bench = Bench()
    bench.script.react = on(Tick, Persist(1, RECORD, 0), SEND)
    bench.disk.fail_next_fsync(path_part)
    await bench.run()
    assert [type(error).__name__ for error in bench.fatal] == ["StorageFailure"]
    assert bench.driver.failure is bench.fatal[0]
    operations = len(bench.disk.operations)
    bench.steps.post(Tick())
    await bench.settle()
    assert bench.reported == []
    assert bench.script.events == [Tick()]
    assert len(bench.disk.operations) == operations
    await bench.driver.resign()
    await bench.driver.stop()


@on_both_loops
async def test_the_quorum_state_is_written_again_until_the_disk_has_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The former file remains, and no later effect is performed before the new one is written."""
    monkeypatch.setattr("tidelog.broker.raft.driver.FULL_DISK_PAUSE_S", 0.001)
    bench = Bench()
    bench.state_file.write(QuorumRecord(leader_epoch=2), kraft_version=1, voters=())
    bench.script.react = on(Tick, Persist(1, RECORD, None), SEND)
    bench.disk.free_bytes = 3
    await bench.run()
    await remains(lambda: bench.reported == [] and bench.fatal == [], 0.02)
    assert bench.state_file.read() == QuorumRecord(leader_epoch=2)
    bench.disk.free_bytes = None
    await eventually(lambda: bench.reported == [SEND])
    assert bench.state_file.read() == RECORD
    await bench.driver.stop()


@on_both_loops
async def test_a_driver_that_waits_for_disk_space_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.broker.raft.driver.FULL_DISK_PAUSE_S", 0.001)
    bench = Bench()
    bench.script.react = on(Tick, Persist(1, RECORD, None), SEND)
    bench.disk.free_bytes = 3
    await bench.run()
    async with asyncio.timeout(10):
        await bench.driver.stop()
    assert bench.reported == [] and bench.fatal == []


@on_both_loops
async def test_an_error_of_the_state_machine_or_its_listener_is_final() -> None:
    for effect in (None, HighWatermark(1)):
        bench = Bench()

        def react(event: Event, result: Effect | None = effect) -> list[Effect]:
            if result is None:
                raise RuntimeError("a bug")
            return [result]

        def fail(offset: int) -> None:
            raise RuntimeError("a record that cannot be applied")

        bench.script.react = react
        bench.on_committed = fail  # type: ignore[method-assign]
        await bench.run()
        assert len(bench.fatal) == 1
        await bench.driver.stop()


@on_both_loops
async def test_the_machine_is_ticked_at_its_deadline() -> None:
    bench = Bench()

    def react(event: Event) -> list[Effect]:
        count = len(bench.script.events)
        bench.script.deadline_ms = bench.clock.monotonic_ms() + count if count < 4 else None
        return []

    bench.script.react = react
    await bench.run()
    await eventually(lambda: len(bench.script.events) == 4)
    await bench.settle()
    assert bench.script.events == [Tick()] * 4
    await bench.driver.stop()


@on_both_loops
async def test_a_stop_resigns_first() -> None:
    bench = Bench()
    bench.script.react = on(Resign, Persist(1, RECORD, None), SEND)
    await bench.run()
    await bench.driver.resign()
    await bench.driver.stop()
    assert bench.script.events == [Tick(), Resign(), PersistCompleted(1)]
    assert bench.reported == [SEND]


@on_both_loops
async def test_a_response_to_a_cancelled_request_is_dropped() -> None:
    bench = Bench()
    gone: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    gone.cancel()
    bench.script.react = on(Tick, Respond(gone, VoteResponse()))
    await bench.run()
    assert bench.fatal == []
    await bench.driver.stop()
