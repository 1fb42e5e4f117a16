"""Kill -9 at every step of copying, deleting and publishing, with real processes: nothing is lost or left.

After each crash, and again after the restart, every retained offset reads as it was acknowledged. Every
tiered offset is in exactly one finished segment, and the store has the objects of these segments and no
others. `make test` runs some crashes, `make crash-tier` all of them (TIDELOG_CRASHES=all).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.nodes.killed_cluster import TIMEOUT_S, CrashingCluster
from tests.support.nodes.killed_node import MOMENTS, Step
from tests.support.tier.audit import Written
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, ElectionType
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.tasks.fault_points import FaultPoint

SEGMENTS = 3.5
RETAINED_BYTES = 2_200_000


class NodeWork(Enum):
    """The work of the node when it crashes."""

    COPY = auto()
    DELETION = auto()
    PARTITION_DELETION = auto()
    READ = auto()
    FOLLOWING = auto()
    """The leader copies, a follower crashes."""
    JOINING = auto()
    """A follower returns empty, and crashes while it restores its state from the tier."""


class Case(NamedTuple):
    """One crash."""

    during: NodeWork
    moment: Enum
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.during.name.lower()}-{self.moment.name.lower()}-{self.nth}"


def cases(during: NodeWork, *moments: Enum | tuple[Enum, int]) -> list[Case]:
    """Return a case for the first time at each moment; with a number, for each time up to it."""
    cases = []
    for each in moments:
        moment, count = each if isinstance(each, tuple) else (each, 1)
        cases += [Case(during, moment, nth) for nth in range(1, count + 1)]
    return cases


ALL = [
    *cases(
        NodeWork.COPY,
        FaultPoint.BEFORE_COPY_STARTED,
        FaultPoint.AFTER_COPY_STARTED,
        FaultPoint.AFTER_COPY_STORED,
        FaultPoint.AFTER_COPY_FINISHED,
        FaultPoint.AFTER_COPY_NOTED,
        (Step.OBJECT_PUT, 3),
        (Step.OBJECT_WRITTEN, 3),
        (Step.OBJECT_LOOKED_AT, 2),
        (Step.RECORD_PRODUCED, 2),
        (Step.RECORD_NOT_READ_BACK, 2),
        (Step.SNAPSHOT_FILE, 10),
        (Step.LOCAL_SEGMENT_FILE, 6),
    ),
    *cases(
        NodeWork.DELETION,
        FaultPoint.BEFORE_LOG_START_MOVED,
        FaultPoint.AFTER_LOG_START_MOVED,
        FaultPoint.BEFORE_DELETE_STARTED,
        FaultPoint.AFTER_DELETE_STARTED,
        FaultPoint.AFTER_DELETE_STORED,
        FaultPoint.AFTER_DELETE_FINISHED,
        (Step.OBJECT_DELETED, 3),
        (Step.RECORD_PRODUCED, 2),
        (Step.RECORD_NOT_READ_BACK, 2),
    ),
    *cases(
        NodeWork.PARTITION_DELETION,
        FaultPoint.BEFORE_PARTITION_MARKED,
        FaultPoint.AFTER_PARTITION_MARKED,
        FaultPoint.AFTER_PARTITION_STARTED,
        FaultPoint.AFTER_PARTITION_EMPTIED,
        FaultPoint.AFTER_PARTITION_FINISHED,
        (FaultPoint.AFTER_DELETE_STORED, 2),
        (Step.OBJECT_DELETED, 3),
        (Step.RECORD_NOT_READ_BACK, 4),
    ),
    *cases(NodeWork.READ, (Step.INDEX_CACHE_FILE, 2)),  # of one index: sequential reads need no others
    *cases(NodeWork.FOLLOWING, (Step.LOCAL_SEGMENT_FILE, 3), (Step.SNAPSHOT_FILE, 3)),
    *cases(NodeWork.JOINING, (Step.RESTART_FROM_REMOTE, 12)),
]
NEEDS_FOLLOWERS = (NodeWork.FOLLOWING, NodeWork.JOINING)
QUICK = {
    1: [
        Case(NodeWork.COPY, Step.OBJECT_PUT, 3),
        Case(NodeWork.COPY, Step.RECORD_NOT_READ_BACK, 2),
        Case(NodeWork.DELETION, FaultPoint.AFTER_DELETE_STORED),
        Case(NodeWork.PARTITION_DELETION, FaultPoint.BEFORE_PARTITION_MARKED),
    ],
    3: [
        Case(NodeWork.COPY, FaultPoint.AFTER_COPY_STORED),
        Case(NodeWork.JOINING, Step.RESTART_FROM_REMOTE, 6),
    ],
}
RUNS_ALL = os.environ.get("TIDELOG_CRASHES") == "all"


def choose_cases(nodes: int) -> list[Case]:
    """Return the crashes of this run."""
    if not RUNS_ALL:
        return QUICK[nodes]
    return [case for case in ALL if nodes > 1 or case.during not in NEEDS_FOLLOWERS]


def run_cluster(nodes: int) -> Iterator[CrashingCluster]:
    """Run a cluster for all tests of this module; at the end check everything once more."""
    with tempfile.TemporaryDirectory(prefix="tidelog-crashes-") as folder:
        cluster = CrashingCluster(Path(folder), nodes)
        try:
            yield cluster
            if len(cluster.cluster.running) == nodes:
                for written in list(cluster.settled.values()):
                    cluster.settle(written)
        finally:
            cluster.stop()


@pytest.fixture(scope="module")
def one_node() -> Iterator[CrashingCluster]:
    yield from run_cluster(1)


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[CrashingCluster]:
    yield from run_cluster(3)


def test_every_fault_point_is_in_the_table() -> None:
    assert {case.moment.name for case in ALL} == set(MOMENTS)


@pytest.mark.parametrize("case", choose_cases(1), ids=str)
def test_a_single_node_is_killed_and_restarted(case: Case, one_node: CrashingCluster) -> None:
    crash(case, one_node)


@pytest.mark.parametrize("case", choose_cases(3), ids=str)
def test_one_of_three_nodes_is_killed_and_restarted(case: Case, three_nodes: CrashingCluster) -> None:
    crash(case, three_nodes)


def crash(case: Case, cluster: CrashingCluster) -> None:
    """Crash a node, and check before and after its restart."""
    topic = str(case).replace("_", "-")
    written = cluster.create(topic)
    match case.during:
        case NodeWork.COPY | NodeWork.FOLLOWING:
            crash_while_copying(case, cluster, written)
        case NodeWork.DELETION:
            crash_while_deleting(case, cluster, written)
        case NodeWork.PARTITION_DELETION:
            crash_while_deleting_the_topic(case, cluster, written)
        case NodeWork.READ:
            crash_while_reading(case, cluster, written)
        case NodeWork.JOINING:
            crash_while_joining(case, cluster, written)


def node_to_kill(case: Case, cluster: CrashingCluster, topic: str) -> int:
    """Return the leader, or a follower if the case is about followers."""
    leader = cluster.leader(topic)
    if case.during not in NEEDS_FOLLOWERS:
        return leader
    return next(node_id for node_id in cluster.cluster.nodes if node_id != leader)


def continue_without(cluster: CrashingCluster, written: Written, node_id: int) -> None:
    """Check without the node, if there are others; then restart it and check again."""
    if cluster.count > 1:
        cluster.wait_until_led_without(written.topic, node_id)
        cluster.settle(written)
    cluster.start(node_id)
    cluster.wait_until_whole(written.topic)
    cluster.settle(written)


def crash_while_copying(case: Case, cluster: CrashingCluster, written: Written) -> None:
    node_id = node_to_kill(case, cluster, written.topic)
    cluster.arm(node_id, case.moment, case.nth)
    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(cluster.produce, written, SEGMENTS)
        cluster.wait_for_death(node_id)
        if cluster.count == 1:
            cluster.start(node_id)
        producing.result()
    continue_without(cluster, written, node_id)


def crash_while_deleting(case: Case, cluster: CrashingCluster, written: Written) -> None:
    cluster.produce(written, SEGMENTS)
    cluster.settle(written)
    node_id = node_to_kill(case, cluster, written.topic)
    cluster.arm(node_id, case.moment, case.nth)
    with ThreadPoolExecutor(1) as pool:
        # The node may die before its response is sent: then the request is repeated after the restart.
        altering = pool.submit(cluster.alter, written.topic, retention_bytes=str(RETAINED_BYTES))
        cluster.wait_for_death(node_id)
        if cluster.count == 1:
            cluster.start(node_id)
        altering.result()
    continue_without(cluster, written, node_id)
    wait_until(lambda: cluster.audit.borders(written.topic).log_start > 0, "retention", timeout_s=TIMEOUT_S)
    cluster.settle(written)
    start = cluster.audit.borders(written.topic).log_start
    assert written.bytes_from(start) >= RETAINED_BYTES * 0.97, f"too much was deleted, up to {start}"


def crash_while_deleting_the_topic(case: Case, cluster: CrashingCluster, written: Written) -> None:
    cluster.produce(written, SEGMENTS)
    cluster.settle(written)
    del cluster.settled[written.topic]
    node_id = node_to_kill(case, cluster, written.topic)
    cluster.arm(node_id, case.moment, case.nth)
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(cluster.delete, written.topic)
        cluster.wait_for_death(node_id)
        if cluster.count > 1:
            cluster.require_gone(written.topic)
        cluster.start(node_id)
        deleting.result()
    cluster.require_gone(written.topic)
    again = cluster.create(written.topic)
    cluster.produce(again, SEGMENTS)
    cluster.settle(again)


def crash_while_reading(case: Case, cluster: CrashingCluster, written: Written) -> None:
    cluster.produce(written, SEGMENTS)
    cluster.drain(written)  # without a read, which would fill the cache
    node_id = node_to_kill(case, cluster, written.topic)
    cluster.arm(node_id, case.moment, case.nth)
    end = cluster.audit.borders(written.topic).end
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(cluster.audit.read, written.topic, 50, end)
        cluster.wait_for_death(node_id)
        if cluster.count == 1:
            cluster.start(node_id)
        assert reading.result() == [(offset, written.values[offset]) for offset in range(50, end)]
    continue_without(cluster, written, node_id)


def crash_while_joining(case: Case, cluster: CrashingCluster, written: Written) -> None:
    cluster.produce(written, SEGMENTS)
    cluster.settle(written)
    node_id = node_to_kill(case, cluster, written.topic)
    cluster.cluster.kill(node_id)
    cluster.empty(written.topic, node_id)
    cluster.arm(node_id, case.moment, case.nth)
    cluster.cluster.nodes[node_id].start()
    cluster.wait_for_death(node_id)
    cluster.settle(written)
    cluster.start(node_id)
    cluster.wait_until_whole(written.topic)
    asyncio.run(lead(cluster, written.topic, node_id))
    wait_until(lambda: cluster.leader(written.topic) == node_id, f"leader {node_id}", timeout_s=TIMEOUT_S)
    cluster.produce(written, SEGMENTS)
    cluster.settle(written)


async def lead(cluster: CrashingCluster, topic: str, node_id: int) -> None:
    """Make a replica the preferred one, so that it is elected."""
    name = TopicPartition(topic, 0)
    order = [node_id, *(each for each in cluster.cluster.nodes if each != node_id)]
    async with Admin(cluster.cluster.bootstrap_servers) as admin:
        assert (await admin.alter_partition_reassignments({name: order}))[name] is None
        assert (await admin.elect_leaders(ElectionType.PREFERRED, [name]))[name] is None
