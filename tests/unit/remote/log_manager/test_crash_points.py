"""The node dies at every step, and a new RemoteLogManager over the same remote state goes on rightly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.disks.crash_file_system import SimulatedCrash
from tests.support.tier.replicas_over_tier import (
    PARTITION,
    TIERED,
    TierNode,
    TierWorld,
    replicate,
    run_to_end,
    sealed_segments,
)
from tidelog.remote.expiry.partition_remover import remove_partition
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.tasks.fault_points import FaultPoint

Dies = Callable[[FaultPoint], None]


class DiesAt:
    """Ends the process when `point` is reached for the `nth` time."""

    def __init__(self, point: FaultPoint, nth: int) -> None:
        self.point = point
        self.left = nth
        self.has_died = False

    def __call__(self, point: FaultPoint) -> None:
        if point is self.point:
            self.left -= 1
            if self.left == 0:
                self.has_died = True
                raise SimulatedCrash


class Recorder:
    """Notes which points a run passes."""

    def __init__(self) -> None:
        self.passed: list[FaultPoint] = []

    def __call__(self, point: FaultPoint) -> None:
        self.passed.append(point)


def written(world: TierWorld, node: TierNode, segments: int) -> None:
    sealed_segments(node.log, segments)
    for other in world.nodes:
        replicate(node.log, other.log)


def copy_three(world: TierWorld, node: TierNode) -> None:
    written(world, node, 3)
    node.run_copy()


def copy_with_a_failure(world: TierWorld, node: TierNode) -> None:
    written(world, node, 2)
    world.tier.faults.half_way = 1
    try:
        node.run_copy()
    except (RemoteStorageError, RemoteMetadataError):
        node.run_copy()


def expire(world: TierWorld, node: TierNode) -> None:
    copy_three(world, node)
    world.configure(replace(TIERED, retention_ms=0))
    node.run_expiration()


def remove(world: TierWorld, node: TierNode) -> None:
    try:
        copy_three(world, node)
    finally:
        stop_leading(node)
    run_to_end(remove_partition(node.context, PARTITION))


def stop_leading(node: TierNode) -> None:
    """What the manager does before a partition is removed."""
    assert node.role is not None and node.copy is not None
    node.role.is_current = False
    node.copy.release()


STORIES = [copy_three, copy_with_a_failure, expire, remove]


def points_of(story: Callable[[TierWorld, TierNode], None]) -> list[FaultPoint]:
    world = TierWorld()
    recorder = Recorder()
    node = world.nodes[0]
    node.restart(recorder)
    node.lead(0)
    story(world, node)
    return recorder.passed


CRASHES = [
    pytest.param(story, point, passed[: index + 1].count(point), id=f"{story.__name__}-{index}-{point.name}")
    for story in STORIES
    for passed in (points_of(story),)
    for index, point in enumerate(passed)
]


def test_the_stories_pass_every_fault_point() -> None:
    assert {point for story in STORIES for point in points_of(story)} == set(FaultPoint)


def bring_to_rest(world: TierWorld, node: TierNode) -> None:
    """Let the tasks run as often as they need."""
    for _ in range(3):
        node.run_copy()
        node.run_expiration()


@pytest.mark.parametrize(("story", "point", "nth"), CRASHES)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same node", "other node"])
def test_the_next_leader_finishes_what_a_crash_left(
    story: Callable[[TierWorld, TierNode], None], point: FaultPoint, nth: int, elsewhere: bool
) -> None:
    world = TierWorld(2)
    node, other = world.nodes
    dies = DiesAt(point, nth)
    node.restart(dies)
    node.lead(0)
    with pytest.raises(SimulatedCrash):
        story(world, node)
    assert dies.has_died
    world.tier.faults.clear()
    next_leader = other if elsewhere else node
    if elsewhere:
        node.restart()
        other.log.roll(world.clock.now_ms)
    next_leader.restart()
    next_leader.lead(1)
    if story is remove:
        # The topic is gone; what is left of it goes, whoever does it and however often.
        run_to_end(remove_partition(next_leader.context, PARTITION))
        run_to_end(remove_partition(next_leader.context, PARTITION))
        assert next_leader.metadata.partition_deletions() == []
        assert world.ranges() == []
        assert world.tier.copies == {}
        return
    bring_to_rest(world, next_leader)
    world.assert_nothing_dangles()
    log = next_leader.log
    assert log.highest_offset_in_remote_storage == log.log_end_offset - 1
    covered = {o for start, end, _ in world.ranges() for o in range(start, end + 1)}
    # All that is not on local disk is remote. (What is remote no more has expired, and may be local yet.)
    assert set(range(log.log_start_offset, log.local_log_start_offset)) <= covered
    log.apply_retention(world.clock.now_ms + 1)
    bring_to_rest(world, next_leader)
    assert set(range(log.log_start_offset, log.local_log_start_offset)) <= covered
    if story is expire:
        assert log.log_start_offset in (0, 10, 20, 30) if elsewhere else log.log_start_offset >= 0
        world.configure(replace(TIERED, retention_ms=0))
        world.clock.now_ms += 1
        bring_to_rest(world, next_leader)
        assert log.log_start_offset == 30
        assert world.ranges() == []


@pytest.mark.parametrize("kind", ["before", "half_way", "answer_lost"])
@pytest.mark.parametrize("store", ["tier", "metadata"])
@pytest.mark.parametrize("nth", range(12))
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_any_single_call_may_fail_and_the_next_runs_bring_all_to_rest(
    story: Callable[[TierWorld, TierNode], None], nth: int, store: str, kind: str
) -> None:
    world = TierWorld()
    node = world.nodes[0]
    node.lead(0)
    faults = world.tier.faults if store == "tier" else world.metadata_faults
    countdown = nth
    take = faults.take

    wanted = kind

    def take_nth(kind: str) -> bool:
        nonlocal countdown
        if take(kind):
            return True
        if kind != wanted:
            return False
        countdown -= 1
        return countdown == -1

    faults.take = take_nth  # type: ignore[method-assign]
    try:
        story(world, node)
    except (RemoteStorageError, RemoteMetadataError):
        pass
    faults.take = take  # type: ignore[method-assign]
    faults.clear()
    if story is remove:
        run_to_end(remove_partition(node.context, PARTITION))
        assert world.tier.copies == {}
        assert node.metadata.partition_deletions() == []
        return
    bring_to_rest(world, node)
    world.assert_nothing_dangles()
    assert node.context.in_progress == set()
    assert node.log.highest_offset_in_remote_storage == node.log.log_end_offset - 1
