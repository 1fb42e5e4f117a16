"""Garbage collections of a broker process."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from tidelog.broker.node.garbage_collection import FULL_COLLECTION_INTERVAL_S, GarbageCollection


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


def test_old_objects_in_a_reference_cycle_are_released_by_the_next_full_collection(loop: TimerLoop) -> None:
    collection = GarbageCollection(cast(asyncio.AbstractEventLoop, loop))
    collection.start()
    node: Node | None = Node()
    reference = weakref.ref(node)
    gc.collect(1)  # Now it is in the oldest generation.
    node = None
    gc.collect(1)
    assert reference() is not None
    assert loop.timer is not None
    delay_s, collect = loop.timer
    collect()
    assert delay_s == FULL_COLLECTION_INTERVAL_S
    assert reference() is None
    assert loop.timer is not None, "the next full collection is scheduled"
    collection.stop()
    assert loop.timer is None
