"""Garbage collections of a broker process."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tidelog.broker.node.garbage_collection import (
    OLD_OBJECTS_MAX,
    OLDEST_GENERATION,
    THRESHOLDS,
    GarbageCollection,
)

VISITED_MAX = OLD_OBJECTS_MAX + (THRESHOLDS[2] + 2) * (THRESHOLDS[1] + 2) * THRESHOLDS[0]
"""Old objects, those of the young collections between two full ones, and new ones."""


class Node:
    """An object that refers to itself, so that only the collector can release it."""

    def __init__(self) -> None:
        self.myself = self


@pytest.fixture
def collection() -> Iterator[GarbageCollection]:
    thresholds = gc.get_threshold()
    collection = GarbageCollection()
    collection.start()
    yield collection
    collection.stop()
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def old_object() -> Node:
    """Return an object of the oldest generation."""
    node = Node()
    gc.collect(1)
    gc.collect(1)
    return node


def grow() -> list[list[int]]:
    """Return as many new objects as become permanent in the next full collection."""
    return [[number] for number in range(OLD_OBJECTS_MAX + 1)]


def visited_while_growing() -> list[int]:
    """Return the number of objects that each full collection visits while 500,000 objects are created."""
    visited: list[int] = []

    def on_collection(phase: str, information: dict[str, int]) -> None:
        if phase == "start" and information["generation"] == OLDEST_GENERATION:
            visited.append(len(gc.get_objects()))

    gc.callbacks.append(on_collection)
    try:
        partitions = [[number] for number in range(500_000)]
    finally:
        gc.callbacks.remove(on_collection)
    assert partitions
    return visited


@pytest.mark.usefixtures("collection")
def test_a_full_collection_of_a_growing_node_visits_a_bounded_number_of_objects() -> None:
    """With 2,000 partitions, a collection of all objects blocked the event loop for 150 ms."""
    visited = visited_while_growing()
    assert len(visited) > 1, "there were full collections"
    assert max(visited) <= VISITED_MAX


def test_the_first_full_collection_visits_a_bounded_number_of_objects_after_a_start_with_many() -> None:
    start = [[number] for number in range(500_000)]
    gc.collect()
    thresholds = gc.get_threshold()
    collection = GarbageCollection()
    collection.start()
    try:
        assert max(visited_while_growing()) <= VISITED_MAX
    finally:
        collection.stop()
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    assert start


@pytest.mark.usefixtures("collection")
def test_the_objects_of_a_node_that_has_grown_become_permanent() -> None:
    partitions = grow()
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() - before > OLD_OBJECTS_MAX
    assert len(partitions) > OLD_OBJECTS_MAX


@pytest.mark.usefixtures("collection")
def test_permanent_objects_are_released_when_nothing_refers_to_them() -> None:
    permanent, partitions = Node(), grow()
    gc.collect()
    reference = weakref.ref(permanent)
    permanent.myself = None
    del permanent
    assert reference() is None
    assert partitions


@pytest.mark.usefixtures("collection")
def test_in_a_steady_state_old_objects_in_a_reference_cycle_are_released() -> None:
    for _ in range(3):
        reference = weakref.ref(old_object())
        assert reference() is not None, "it is garbage of the oldest generation"
        before = gc.get_freeze_count()
        gc.collect()
        assert reference() is None
        assert gc.get_freeze_count() <= before, "nothing became permanent"


def test_after_the_end_of_the_node_no_object_becomes_permanent() -> None:
    thresholds = gc.get_threshold()
    collection = GarbageCollection()
    collection.start()
    collection.stop()
    partitions, before = grow(), gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() <= before
    assert partitions
    gc.set_threshold(*thresholds)
    gc.unfreeze()
