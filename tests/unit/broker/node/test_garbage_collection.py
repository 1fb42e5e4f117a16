"""Garbage collections of a broker process."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from tidelog.broker.node.garbage_collection import CHECK_INTERVAL_S, GROWTH_BLOCKS_MIN, GarbageCollection


class TimerLoop:
    """An event loop whose only timer the test runs."""

    def __init__(self) -> None:
        self.timer: tuple[float, Callable[[], None]] | None = None

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> TimerLoop:
        self.timer = delay_s, callback
        return self

    def cancel(self) -> None:
        self.timer = None


class Node:
    """An object that refers to itself, so that only the collector can release it."""

    def __init__(self) -> None:
        self.myself = self


@pytest.fixture
def loop() -> Iterator[TimerLoop]:
    thresholds = gc.get_threshold()
    yield TimerLoop()
    gc.set_threshold(*thresholds)


def test_requests_with_100000_elements_start_no_full_collection(loop: TimerLoop) -> None:
    collection = GarbageCollection(cast(asyncio.AbstractEventLoop, loop))
    generations: list[int] = []

    def on_collection(phase: str, information: dict[str, int]) -> None:
        if phase == "start":
            generations.append(information["generation"])

    collection.start()
    gc.callbacks.append(on_collection)
    try:
        for _ in range(30):
            elements = [[number] for number in range(100_000)]
            del elements
    finally:
        gc.callbacks.remove(on_collection)
        collection.stop()
    assert 1 in generations
    assert 2 not in generations


class Memory:
    """The number of memory blocks, which the test sets."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks

    def count(self) -> int:
        return self.blocks


def old_garbage() -> weakref.ref[Node]:
    """Return a reference to garbage of the oldest generation, which only a full collection releases."""
    node: Node | None = Node()
    reference = weakref.ref(node)
    gc.collect(1)
    node = None
    gc.collect(1)
    assert reference() is not None
    return reference


def run_check(loop: TimerLoop) -> None:
    assert loop.timer is not None, "the next check is scheduled"
    delay_s, check = loop.timer
    assert delay_s == CHECK_INTERVAL_S
    check()


def test_no_full_collection_runs_while_memory_does_not_grow(loop: TimerLoop) -> None:
    memory = Memory(2_000_000)
    collection = GarbageCollection(cast(asyncio.AbstractEventLoop, loop), memory.count)
    collection.start()
    reference = old_garbage()
    memory.blocks = 3_999_999
    run_check(loop)
    run_check(loop)
    assert reference() is not None
    collection.stop()
    assert loop.timer is None


def test_old_objects_in_a_reference_cycle_are_released_when_memory_has_doubled(loop: TimerLoop) -> None:
    memory = Memory(2_000_000)
    collection = GarbageCollection(cast(asyncio.AbstractEventLoop, loop), memory.count)
    collection.start()
    reference = old_garbage()
    memory.blocks = 4_000_000
    run_check(loop)
    assert reference() is None
    later = old_garbage()
    run_check(loop)
    assert later() is not None, "memory has not doubled again"
    memory.blocks = 8_000_000
    run_check(loop)
    assert later() is None
    collection.stop()


def test_a_small_process_runs_no_full_collection_for_a_few_objects(loop: TimerLoop) -> None:
    memory = Memory(100_000)
    collection = GarbageCollection(cast(asyncio.AbstractEventLoop, loop), memory.count)
    collection.start()
    reference = old_garbage()
    memory.blocks = 100_000 + GROWTH_BLOCKS_MIN - 1
    run_check(loop)
    assert reference() is not None
    memory.blocks += 1
    run_check(loop)
    assert reference() is None
    collection.stop()
