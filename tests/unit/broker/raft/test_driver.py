"""The driver: effects in order, none before it is durable, one shared fsync, final failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import metadata_log_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.yields import loop_iterations
from tests.support.metadata.stores import DIRECTORY, InlineExecutor
from tests.support.waiting import TIMEOUT_S, eventually, remains
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
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.vote import VoteRequest, VoteResponse
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


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


class DriverFixture:
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
    fixture = DriverFixture()
    response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    fixture.executor.held = True
    fixture.script.react = on(
        Tick,
        LeaderChanged(2, None),
        Persist(7, RECORD, None),
        SEND,
        Respond(response, VoteResponse()),
        LeaderChanged(3, 1),
        SnapshotLoaded(SnapshotId(5, 2)),
        HighWatermark(9),
    )
    await fixture.run()
    assert fixture.reported == [("leader", 2, None)]
    assert not response.done()
    fixture.executor.release()
    await fixture.settle()
    expected = [SEND, ("leader", 3, 1), ("snapshot", SnapshotId(5, 2)), ("committed", 9)]
    assert fixture.reported == [("leader", 2, None), *expected]
    assert await response == VoteResponse()
    assert fixture.state_file.read() == RECORD
    assert fixture.script.events == [Tick(), PersistCompleted(7)]
    await fixture.driver.stop()


@on_both_loops
async def test_events_wait_during_an_fsync_and_share_the_next() -> None:
    fixture = DriverFixture()
    fixture.executor.held = True
    tickets = iter(range(1, 100))

    def react(event: Event) -> list[Effect]:
        if isinstance(event, Tick | RequestReceived):
            ticket = next(tickets)
            record = QuorumRecord(leader_epoch=ticket)
            return [Persist(ticket, record, 0), LeaderChanged(ticket, None)]
        return []

    fixture.script.react = react
    await fixture.run()
    for _ in range(3):
        fixture.steps.post(RequestReceived(None, VoteRequest()))
    await fixture.settle()
    assert fixture.script.events == [Tick()]
    assert fixture.executor.waiting_count == 1
    fixture.executor.release()
    await fixture.settle()
    assert fixture.executor.run_count == 2
    assert fixture.reported == [("leader", ticket, None) for ticket in (1, 2, 3, 4)]
    assert [event.ticket for event in fixture.script.events if isinstance(event, PersistCompleted)] == [
        1,
        2,
        3,
        4,
    ]
    assert fixture.state_file.read() == QuorumRecord(leader_epoch=4)
    await fixture.driver.stop()


@on_both_loops
async def test_an_append_has_its_result_within_its_callback() -> None:
    fixture = DriverFixture()

    def react(event: Event) -> list[Effect]:
        if not isinstance(event, Append):
            return []
        if event.epoch != 5:
            return [AppendRejected(event.context, "another epoch")]
        return [HighWatermark(1), RecordsAppended(event.context, 10, 11, 5), Persist(1, None, None)]

    fixture.script.react = react
    outcome: list[object] = []

    def turn() -> None:
        outcome.append(fixture.steps.append([b"a", b"b"], 5))
        try:
            fixture.steps.append([b"c"], 4)
        except KafkaError as error:
            outcome.append(error.code)

    await fixture.run()
    fixture.steps.schedule(turn)
    await fixture.settle()
    appended, refused = outcome
    assert isinstance(appended, RecordsAppended)
    assert (appended.base_offset, appended.last_offset, appended.epoch) == (10, 11, 5)
    assert refused is ErrorCode.NOT_CONTROLLER
    assert fixture.reported == [("committed", 1)]
    await fixture.driver.stop()


@on_both_loops
async def test_an_error_in_an_append_ends_the_quorum_although_the_command_ignores_it() -> None:
    """Otherwise the active controller would continue with an image that differs from its log."""
    fixture = DriverFixture()

    def react(event: Event) -> list[Effect]:
        if isinstance(event, Append):
            raise AssertionError("half of it is in the log")
        return []

    def turn() -> None:
        with suppress(AssertionError):
            fixture.steps.append([b"a"], 5)

    fixture.script.react = react
    await fixture.run()
    fixture.steps.schedule(turn)
    await fixture.settle()
    assert [str(error) for error in fixture.fatal] == ["half of it is in the log"]
    await fixture.driver.stop()


@on_both_loops
@pytest.mark.parametrize("voters", [(1,), (1, 2, 3)])
async def test_a_leader_with_a_full_disk_resigns_if_there_are_other_voters(voters: tuple[int, ...]) -> None:
    """The only voter does not resign: no other node could lead, and a smaller append may fit."""
    fixture = DriverFixture()
    fixture.script.voter_ids = voters

    def react(event: Event) -> list[Effect]:
        if isinstance(event, Append):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on the disk")
        return []

    codes: list[ErrorCode] = []

    def turn() -> None:
        with pytest.raises(KafkaError) as error:
            fixture.steps.append([b"a"], 5)
        codes.append(error.value.code)

    fixture.script.react = react
    await fixture.run()
    fixture.steps.schedule(turn)
    await fixture.settle()
    is_alone = len(voters) == 1
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR if is_alone else ErrorCode.NOT_CONTROLLER]
    assert (Resign() in fixture.script.events) is not is_alone
    assert fixture.fatal == []
    await fixture.driver.stop()


@on_both_loops
async def test_a_callback_waits_for_the_current_fsync() -> None:
    fixture = DriverFixture()
    fixture.executor.held = True
    fixture.script.react = on(Tick, Persist(1, RECORD, None))
    await fixture.run()
    turns: list[int] = []
    fixture.steps.schedule(lambda: turns.append(1))
    await fixture.settle()
    assert turns == []
    fixture.executor.release()
    await fixture.settle()
    assert turns == [1]
    await fixture.driver.stop()


@on_both_loops
@pytest.mark.parametrize("is_ticked", [True, False])
async def test_after_a_pause_loss_of_leadership_is_reported_before_any_callback(is_ticked: bool) -> None:
    """Otherwise a former controller would respond to the heartbeats that have waited."""
    fixture = DriverFixture()

    def resign(event: Event) -> list[Effect]:
        if not isinstance(event, Tick):
            return []
        fixture.script.deadline_ms = None
        return [LeaderChanged(6, None)]

    await fixture.run()
    fixture.script.react = resign
    fixture.script.deadline_ms = fixture.clock.monotonic_ms() + 100
    fixture.clock.now_ms += 60_000
    callbacks_seen: list[list[Any]] = []
    if is_ticked:
        fixture.steps.post(Tick())
    fixture.steps.schedule(lambda: callbacks_seen.append(list(fixture.reported)))
    await fixture.settle()
    assert callbacks_seen == [[("leader", 6, None)]]
    await fixture.driver.stop()


@on_both_loops
@pytest.mark.parametrize("path_part", ["quorum-state", "__cluster_metadata-0"])
async def test_a_failed_sync_is_final(path_part: str) -> None:
    fixture = DriverFixture()
    fixture.script.react = on(Tick, Persist(1, RECORD, 0), SEND)
    fixture.disk.fail_next_fsync(path_part)
    await fixture.run()
    assert [type(error).__name__ for error in fixture.fatal] == ["StorageFailure"]
    assert fixture.driver.failure is fixture.fatal[0]
    operations = len(fixture.disk.operations)
    fixture.steps.post(Tick())
    await fixture.settle()
    assert fixture.reported == []
    assert fixture.script.events == [Tick()]
    assert len(fixture.disk.operations) == operations
    await fixture.driver.resign()
    await fixture.driver.stop()


@on_both_loops
async def test_the_quorum_state_is_written_again_until_the_disk_has_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The former file remains, and no later effect is performed before the new one is written."""
    monkeypatch.setattr("tidelog.broker.raft.driver.FULL_DISK_PAUSE_S", 0.001)
    fixture = DriverFixture()
    fixture.state_file.write(QuorumRecord(leader_epoch=2), kraft_version=1, voters=())
    fixture.script.react = on(Tick, Persist(1, RECORD, None), SEND)
    fixture.disk.free_bytes = 3
    await fixture.run()
    await remains(lambda: fixture.reported == [] and fixture.fatal == [], 0.02)
    assert fixture.state_file.read() == QuorumRecord(leader_epoch=2)
    fixture.disk.free_bytes = None
    await eventually(lambda: fixture.reported == [SEND])
    assert fixture.state_file.read() == RECORD
    await fixture.driver.stop()


@on_both_loops
async def test_leader_epochs_without_disk_space_are_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may become full between the append of the first record of an epoch and its flush."""
    monkeypatch.setattr("tidelog.broker.raft.driver.FULL_DISK_PAUSE_S", 0.001)
    fixture = DriverFixture()
    builder = BatchBuilder(base_offset=0, leader_epoch=3)
    builder.append(1_000, None, b"record")
    fixture.log.append(builder.build(), 3)
    fixture.script.react = on(Tick, Persist(1, None, 1), SEND)
    fixture.disk.free_bytes = 3
    await fixture.run()
    await remains(lambda: fixture.reported == [] and fixture.fatal == [], 0.02)
    fixture.disk.free_bytes = None
    await eventually(lambda: fixture.reported == [SEND])
    reopened = MetadataLog.open(fixture.disk, DIRECTORY, metadata_log_config(), fixture.clock)
    assert reopened.last_epoch == 3
    await fixture.driver.stop()


@on_both_loops
async def test_a_driver_that_waits_for_disk_space_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.broker.raft.driver.FULL_DISK_PAUSE_S", 0.001)
    fixture = DriverFixture()
    fixture.script.react = on(Tick, Persist(1, RECORD, None), SEND)
    fixture.disk.free_bytes = 3
    await fixture.run()
    async with asyncio.timeout(TIMEOUT_S):
        await fixture.driver.stop()
    assert fixture.reported == [] and fixture.fatal == []


@on_both_loops
async def test_an_error_of_the_state_machine_or_its_listener_is_final() -> None:
    for effect in (None, HighWatermark(1)):
        fixture = DriverFixture()

        def react(event: Event, result: Effect | None = effect) -> list[Effect]:
            if result is None:
                raise RuntimeError("a bug")
            return [result]

        def fail(offset: int) -> None:
            raise RuntimeError("a record that cannot be applied")

        fixture.script.react = react
        fixture.on_committed = fail  # type: ignore[method-assign]
        await fixture.run()
        assert len(fixture.fatal) == 1
        await fixture.driver.stop()


@on_both_loops
async def test_the_machine_is_ticked_at_its_deadline() -> None:
    fixture = DriverFixture()

    def react(event: Event) -> list[Effect]:
        count = len(fixture.script.events)
        fixture.script.deadline_ms = fixture.clock.monotonic_ms() + count if count < 4 else None
        return []

    fixture.script.react = react
    await fixture.run()
    await eventually(lambda: len(fixture.script.events) == 4)
    await fixture.settle()
    assert fixture.script.events == [Tick()] * 4
    await fixture.driver.stop()


@on_both_loops
async def test_a_stop_resigns_first() -> None:
    fixture = DriverFixture()
    fixture.script.react = on(Resign, Persist(1, RECORD, None), SEND)
    await fixture.run()
    await fixture.driver.resign()
    await fixture.driver.stop()
    assert fixture.script.events == [Tick(), Resign(), PersistCompleted(1)]
    assert fixture.reported == [SEND]


@on_both_loops
async def test_a_response_to_a_cancelled_request_is_dropped() -> None:
    fixture = DriverFixture()
    cancelled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    fixture.script.react = on(Tick, Respond(cancelled, VoteResponse()))
    await fixture.run()
    assert fixture.fatal == []
    await fixture.driver.stop()
