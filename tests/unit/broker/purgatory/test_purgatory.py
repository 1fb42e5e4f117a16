"""Delayed operations complete exactly once: by an event, by time, or by force."""

from __future__ import annotations

import logging
import weakref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.clocks.manual_clock import ManualClock
from tidelog.broker.purgatory.parked_memory import ParkedMemory
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, DelayedOperation, Purgatory
from tidelog.broker.purgatory.timers import Timers


class Operation(DelayedOperation):
    """An operation that can complete when `ready` is set; counts its calls."""

    def __init__(self, delay_ms: int = 1_000, size_bytes: int = OPERATION_BYTES) -> None:
        super().__init__(delay_ms, size_bytes)
        self.ready = False
        self.tries = self.completions = self.releases = 0
        self.failures: list[Exception] = []
        self.error: Exception | None = None
        self.error_on_complete: Exception | None = None

    def try_complete(self) -> bool:
        self.tries += 1
        if self.error is not None:
            raise self.error
        return self.force_complete() if self.ready else False

    def on_complete(self) -> None:
        self.completions += 1
        if self.error_on_complete is not None:
            raise self.error_on_complete

    def release(self) -> None:
        assert self.is_completed, "an operation that still waits keeps what it has"
        self.releases += 1

    def on_failure(self, error: Exception) -> None:
        self.failures.append(error)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timers(clock: ManualClock) -> Timers:
    return Timers(clock.monotonic_ms)


@pytest.fixture
def purgatory(timers: Timers) -> Purgatory:
    return Purgatory("Test", timers)


def test_a_ready_operation_completes_at_once_and_is_not_watched(purgatory: Purgatory, timers: Timers) -> None:
    operation = Operation()
    operation.ready = True
    assert purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert (operation.completions, operation.tries) == (1, 1)
    assert (purgatory.delayed_count, purgatory.watched_count, len(timers)) == (0, 0, 0)


def test_an_event_of_any_key_completes_an_operation(purgatory: Purgatory, timers: Timers) -> None:
    operation = Operation()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b", "c"])
    assert (purgatory.delayed_count, purgatory.watched_count, len(timers)) == (1, 3, 1)
    assert purgatory.check_and_complete("b") == 0
    assert purgatory.check_and_complete("elsewhere") == 0
    operation.ready = True
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.check_and_complete("a") == 0
    assert (operation.completions, purgatory.expired_count) == (1, 0)
    assert (purgatory.delayed_count, len(timers)) == (0, 0)


def test_an_operation_expires_exactly_once(purgatory: Purgatory, timers: Timers, clock: ManualClock) -> None:
    operation = Operation(delay_ms=50)
    purgatory.try_complete_else_watch(operation, ["a"])
    clock.now_ms += 49
    timers.advance()
    assert operation.completions == 0
    clock.now_ms += 1
    timers.advance()
    assert (operation.completions, purgatory.expired_count) == (1, 1)
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert not operation.force_complete()
    assert operation.completions == 1
    assert (purgatory.delayed_count, purgatory.watched_count) == (0, 0)


def test_a_completed_operation_does_not_expire(
    purgatory: Purgatory, timers: Timers, clock: ManualClock
) -> None:
    operation = Operation(delay_ms=50)
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.ready = True
    purgatory.check_and_complete("a")
    clock.now_ms += 1_000
    timers.advance()
    assert (operation.completions, purgatory.expired_count) == (1, 0)


def test_watchers_of_a_key_are_checked_in_order(purgatory: Purgatory) -> None:
    order: list[int] = []

    class NamedOperation(Operation):
        def __init__(self, name: int) -> None:
            super().__init__()
            self.name = name

        def on_complete(self) -> None:
            order.append(self.name)

    operations = [NamedOperation(name) for name in range(10)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
    for operation in operations[::2]:
        operation.ready = True
    assert purgatory.check_and_complete("a") == 5
    for operation in operations:
        operation.ready = True
    assert purgatory.check_and_complete("a") == 5
    assert order == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]


def test_an_operation_parked_during_completion_of_others_is_kept(purgatory: Purgatory) -> None:
    successor = Operation()

    class ChainedOperation(Operation):
        def on_complete(self) -> None:
            super().on_complete()
            purgatory.try_complete_else_watch(successor, ["a"])

    first, bystander = ChainedOperation(), Operation()
    purgatory.try_complete_else_watch(first, ["a"])
    purgatory.try_complete_else_watch(bystander, ["a"])
    first.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (purgatory.delayed_count, purgatory.watched_count) == (2, 2)
    successor.ready = bystander.ready = True
    assert purgatory.check_and_complete("a") == 2


def test_a_completed_operation_is_removed_from_all_its_keys(purgatory: Purgatory) -> None:
    for _ in range(100):
        operation = Operation()
        purgatory.try_complete_else_watch(operation, ["busy", "quiet"])
        operation.ready = True
        purgatory.check_and_complete("busy")
        assert (purgatory.delayed_count, purgatory.watched_count) == (0, 0)
        assert operation.releases == 1


def test_a_repeated_key_is_watched_and_checked_once(purgatory: Purgatory) -> None:
    operation = Operation()
    purgatory.try_complete_else_watch(operation, ["a"] * 1_000 + ["b"])
    assert purgatory.watched_count == 2
    purgatory.check_and_complete("a")
    assert operation.tries == 2, "once when it was added, once for the event"


@pytest.mark.parametrize("end", ["complete", "cancel", "expire", "fail"])
def test_a_completed_operation_releases_its_references_once(
    end: str, purgatory: Purgatory, timers: Timers, clock: ManualClock
) -> None:
    operation = Operation(delay_ms=50)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert operation.releases == 0
    if end == "complete":
        operation.ready = True
        purgatory.check_and_complete("b")
    elif end == "cancel":
        operation.cancel()
        operation.cancel()
    elif end == "expire":
        clock.now_ms += 50
        timers.advance()
    else:
        operation.error = ZeroDivisionError("broken")
        purgatory.check_and_complete("a")
    assert operation.releases == 1
    assert operation.completions == (end in ("complete", "expire"))
    assert (purgatory.delayed_count, purgatory.watched_count, len(timers)) == (0, 0, 0)
    left = weakref.ref(operation)
    del operation
    # The log that pytest captures refers to an operation that failed, by way of the traceback.
    assert end == "fail" or left() is None, (
        "no cycle of references: memory is free without the garbage collector"
    )


@pytest.mark.parametrize("where", ["try_complete", "on_complete"])
def test_a_failing_operation_is_logged_and_others_are_checked(
    where: str, purgatory: Purgatory, caplog: pytest.LogCaptureFixture
) -> None:
    error = ZeroDivisionError("broken")
    bad, good = Operation(), Operation()
    for operation in (bad, good):
        purgatory.try_complete_else_watch(operation, ["a"])
    bad.ready = good.ready = True
    if where == "try_complete":
        bad.error = error
    else:
        bad.error_on_complete = error
    with caplog.at_level(logging.ERROR):
        purgatory.check_and_complete("a")
    assert bad.failures == [error]
    assert good.completions == 1
    assert purgatory.delayed_count == 0
    assert len(caplog.records) == 1
    purgatory.check_and_complete("a")
    assert bad.failures == [error]


def test_an_operation_that_fails_at_its_deadline_is_logged(
    purgatory: Purgatory, timers: Timers, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    operation = Operation(delay_ms=5)
    operation.error_on_complete = ZeroDivisionError("broken")
    purgatory.try_complete_else_watch(operation, ["a"])
    clock.now_ms += 10
    timers.advance()
    assert operation.failures == [operation.error_on_complete]
    assert purgatory.delayed_count == 0
    assert len(caplog.records) == 1


def test_an_error_at_the_first_check_is_raised_to_the_caller(purgatory: Purgatory) -> None:
    operation = Operation()
    operation.error = ZeroDivisionError("broken")
    with pytest.raises(ZeroDivisionError):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert (purgatory.delayed_count, purgatory.watched_count, operation.releases) == (0, 0, 1)


def test_above_the_byte_limit_the_largest_operations_expire_early(
    timers: Timers,
) -> None:
    memory = ParkedMemory(limit_bytes=100_000)
    fetches, produces = Purgatory("Fetch", timers, memory), Purgatory("Produce", timers, memory)
    small = [Operation(size_bytes=500) for _ in range(40)]
    large = [Operation(size_bytes=40_000) for _ in range(3)]
    for number in range(40):
        (fetches, produces)[number % 2].try_complete_else_watch(small[number], ["a"])
    assert [fetches.try_complete_else_watch(each, ["a"]) for each in large] == [False, False, False]
    assert [each.completions for each in large] == [1, 0, 0], "the oldest of the largest"
    assert memory.used_bytes == 40 * 500 + 2 * 40_000
    assert (memory.early_expirations, fetches.expired_count) == (1, 1)
    assert not any(each.is_completed for each in small)
    for each in (*small, *large):
        each.cancel()
    assert memory.used_bytes == 0


def test_an_operation_larger_than_the_limit_completes_at_once(timers: Timers) -> None:
    memory = ParkedMemory(limit_bytes=1_000)
    purgatory = Purgatory("Fetch", timers, memory)
    operation = Operation(size_bytes=1_001)
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert (operation.completions, purgatory.delayed_count, memory.used_bytes) == (1, 0, 0)


def test_shutdown_completes_all_operations(purgatory: Purgatory, timers: Timers) -> None:
    operations = [Operation() for _ in range(20)]
    operations[3].error_on_complete = ZeroDivisionError("broken")
    for number, operation in enumerate(operations):
        purgatory.try_complete_else_watch(operation, [number % 3, "all"])
    purgatory.force_all()
    assert [operation.completions for operation in operations] == [1] * 20
    assert (purgatory.delayed_count, purgatory.watched_count, len(timers)) == (0, 0, 0)


class PurgatoryMachine(RuleBasedStateMachine):
    """In any order of events each operation completes at most once, and the counts are consistent."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.timers = Timers(self.clock.monotonic_ms)
        self.memory = ParkedMemory(limit_bytes=10_000)
        self.purgatory = Purgatory("Test", self.timers, self.memory)
        self.operations: list[Operation] = []

    @rule(
        delay=st.integers(1, 500),
        keys=st.lists(st.integers(0, 3), min_size=1, max_size=4),
        size_bytes=st.integers(1, 6_000),
        ready=st.booleans(),
    )
    def add(self, delay: int, keys: list[int], size_bytes: int, ready: bool) -> None:
        operation = Operation(delay, size_bytes)
        operation.ready = ready
        self.purgatory.try_complete_else_watch(operation, keys)
        operation.ready = False
        self.operations.append(operation)

    @precondition(lambda self: self.operations)
    @rule(data=st.data(), key=st.integers(0, 3))
    def make_ready(self, data: st.DataObject, key: int) -> None:
        data.draw(st.sampled_from(self.operations)).ready = True
        self.purgatory.check_and_complete(key)

    @precondition(lambda self: self.operations)
    @rule(data=st.data())
    def force(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.operations)).force_complete()

    @rule(step=st.integers(0, 300))
    def advance(self, step: int) -> None:
        self.clock.now_ms += step
        self.timers.advance()

    @invariant()
    def counts_add_up(self) -> None:
        pending = [operation for operation in self.operations if not operation.is_completed]
        assert self.purgatory.delayed_count == len(pending) == len(self.timers)
        assert all(operation.completions == operation.is_completed for operation in self.operations)
        assert all(operation.releases <= operation.is_completed for operation in self.operations)
        lists = self.purgatory._watchers.values()
        assert all(lists), "a key without operations is dropped"
        assert self.purgatory.watched_count == sum(map(len, lists))
        assert {id(one) for watchers in lists for one in watchers} == {id(one) for one in pending}
        assert self.memory.used_bytes == sum(one.size_bytes for one in pending) <= self.memory.limit_bytes


PurgatoryMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestPurgatoryMachine = PurgatoryMachine.TestCase
