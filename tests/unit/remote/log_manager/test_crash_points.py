"""Crashes of a node at every step, after which a new RemoteLogManager continues with the remote state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.tier.tier_cluster import (
    PARTITION,
    TIERED,
    TierCluster,
    TierNode,
    replicate,
    run_to_end,
    sealed_segments,
)
from tidelog.remote.expiry.partition_remover import remove_partition
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.testing.simulation.crash_file_system import SimulatedCrash

Dies = Callable[[FaultPoint], None]


class CrashAt:
    """Crashes the process when `point` is reached for the `nth` time."""

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
    """Records the points that a run passes."""

    def __init__(self) -> None:
        self.passed: list[FaultPoint] = []

    def __call__(self, point: FaultPoint) -> None:
        self.passed.append(point)


def write_segments(cluster: TierCluster, node: TierNode, segments: int) -> None:
    sealed_segments(node.log, segments)
    for other in cluster.nodes:
        replicate(node.log, other.log)


def copy_three(cluster: TierCluster, node: TierNode) -> None:
    write_segments(cluster, node, 3)
    node.run_copy()


def copy_with_a_failure(cluster: TierCluster, node: TierNode) -> None:
    write_segments(cluster, node, 2)
    cluster.tier.faults.half_way = 1
    try:
        node.run_copy()
    except (RemoteStorageError, RemoteMetadataError):
        node.run_copy()


def expire(cluster: TierCluster, node: TierNode) -> None:
    copy_three(cluster, node)
    cluster.configure(replace(TIERED, retention_ms=0))
    node.run_expiration()


def remove(cluster: TierCluster, node: TierNode) -> None:
    try:
        copy_three(cluster, node)
    finally:
        stop_leading(node)
    run_to_end(remove_partition(node.context, PARTITION))


def stop_leading(node: TierNode) -> None:
    """Stop copying, as the manager does before a partition is removed."""
    assert node.role is not None and node.copy is not None
    node.role.is_current = False
    node.copy.release()


SCENARIOS = [copy_three, copy_with_a_failure, expire, remove]


def points_of(scenario: Callable[[TierCluster, TierNode], None]) -> list[FaultPoint]:
    cluster = TierCluster()
    recorder = Recorder()
    node = cluster.nodes[0]
    node.restart(recorder)
    node.lead(0)
    scenario(cluster, node)
    return recorder.passed


CRASHES = [
    pytest.param(
        scenario, point, passed[: index + 1].count(point), id=f"{scenario.__name__}-{index}-{point.name}"
    )
    for scenario in SCENARIOS
    for passed in (points_of(scenario),)
    for index, point in enumerate(passed)
]


def test_the_workloads_pass_every_fault_point() -> None:
    assert {point for scenario in SCENARIOS for point in points_of(scenario)} == set(FaultPoint)


def run_tasks_to_completion(cluster: TierCluster, node: TierNode) -> None:
    """Run the tasks as often as necessary."""
    for _ in range(3):
        node.run_copy()
        node.run_expiration()


@pytest.mark.parametrize(("scenario", "point", "nth"), CRASHES)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same node", "other node"])
def test_the_next_leader_finishes_the_work_of_a_crashed_one(
    scenario: Callable[[TierCluster, TierNode], None], point: FaultPoint, nth: int, elsewhere: bool
) -> None:
    cluster = TierCluster(2)
    node, other = cluster.nodes
    dies = CrashAt(point, nth)
    node.restart(dies)
    node.lead(0)
    with pytest.raises(SimulatedCrash):
        scenario(cluster, node)
    assert dies.has_died
    cluster.tier.faults.clear()
    next_leader = other if elsewhere else node
    if elsewhere:
        node.restart()
        other.log.roll(cluster.clock.now_ms)
    next_leader.restart()
    next_leader.lead(1)
    if scenario is remove:
        # The topic was deleted; any node deletes the remaining objects, repeatedly if necessary.
        run_to_end(remove_partition(next_leader.context, PARTITION))
        run_to_end(remove_partition(next_leader.context, PARTITION))
        assert next_leader.metadata.partition_deletions() == []
        assert cluster.ranges() == []
        assert cluster.tier.copies == {}
        return
    run_tasks_to_completion(cluster, next_leader)
    cluster.assert_nothing_dangles()
    log = next_leader.log
    assert log.highest_offset_in_remote_storage == log.log_end_offset - 1
    covered = {o for start, end, _ in cluster.ranges() for o in range(start, end + 1)}
    # All records that are not local are remote. (Records that are no longer remote have expired.)
    assert set(range(log.log_start_offset, log.local_log_start_offset)) <= covered
    log.retention.apply(cluster.clock.now_ms + 1)
    run_tasks_to_completion(cluster, next_leader)
    assert set(range(log.log_start_offset, log.local_log_start_offset)) <= covered
    if scenario is expire:
        assert log.log_start_offset in (0, 10, 20, 30) if elsewhere else log.log_start_offset >= 0
        cluster.configure(replace(TIERED, retention_ms=0))
        cluster.clock.now_ms += 1
        run_tasks_to_completion(cluster, next_leader)
        assert log.log_start_offset == 30
        assert cluster.ranges() == []


@pytest.mark.parametrize("kind", ["before", "half_way", "response_lost"])
@pytest.mark.parametrize("store", ["tier", "metadata"])
@pytest.mark.parametrize("nth", range(12))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_after_any_single_failed_call_the_next_runs_complete_all_work(
    scenario: Callable[[TierCluster, TierNode], None], nth: int, store: str, kind: str
) -> None:
    cluster = TierCluster()
    node = cluster.nodes[0]
    node.lead(0)
    faults = cluster.tier.faults if store == "tier" else cluster.metadata_faults
    countdown = nth
    take = faults.take

    expected = kind

    def take_nth(kind: str) -> bool:
        nonlocal countdown
        if take(kind):
            return True
        if kind != expected:
            return False
        countdown -= 1
        return countdown == -1

    faults.take = take_nth  # type: ignore[method-assign]
    try:
        scenario(cluster, node)
    except (RemoteStorageError, RemoteMetadataError):
        pass
    faults.take = take  # type: ignore[method-assign]
    faults.clear()
    if scenario is remove:
        run_to_end(remove_partition(node.context, PARTITION))
        assert cluster.tier.copies == {}
        assert node.metadata.partition_deletions() == []
        return
    run_tasks_to_completion(cluster, node)
    cluster.assert_nothing_dangles()
    assert node.context.in_progress == set()
    assert node.log.highest_offset_in_remote_storage == node.log.log_end_offset - 1
