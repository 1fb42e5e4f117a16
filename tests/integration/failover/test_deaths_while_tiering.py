"""Kill -9 at every step of copying, deleting and publishing, with real processes: nothing is lost or left.

After each death, and again when the node is back, every retained offset reads as it was acknowledged, every
tiered one is in exactly one finished segment, and the store holds the objects of these segments and no
others. `make test` takes a few deaths, `make crash-tier` all of them (TIDELOG_CRASHES=all).
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

from tests.support.nodes.killed_cluster import TIMEOUT_S, DyingCluster
from tests.support.nodes.killed_node import MOMENTS, Step
from tests.support.tier.audit import Written
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, ElectionType
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.tasks.fault_points import FaultPoint

SEGMENTS = 3.5
RETAINED_BYTES = 2_200_000


class During(Enum):
    """What the node is at when it dies."""

    COPY = auto()
    DELETION = auto()
    PARTITION_DELETION = auto()
    READ = auto()
    FOLLOWING = auto()
    """The leader copies, a follower dies."""
    JOINING = auto()
    """A follower comes back empty, and dies while it begins behind the tier."""


class Case(NamedTuple):
    """A death."""

    during: During
    moment: Enum
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.during.name.lower()}-{self.moment.name.lower()}-{self.nth}"


def cases(during: During, *moments: Enum | tuple[Enum, int]) -> list[Case]:
    """Each at its first passing; with a number at each up to that."""
    found = []
    for each in moments:
        moment, count = each if isinstance(each, tuple) else (each, 1)
        found += [Case(during, moment, nth) for nth in range(1, count + 1)]
    return found


ALL = [
    *cases(
        During.COPY,
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
        During.DELETION,
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
        During.PARTITION_DELETION,
        FaultPoint.BEFORE_PARTITION_MARKED,
        FaultPoint.AFTER_PARTITION_MARKED,
        FaultPoint.AFTER_PARTITION_STARTED,
        FaultPoint.AFTER_PARTITION_EMPTIED,
        FaultPoint.AFTER_PARTITION_FINISHED,
        (FaultPoint.AFTER_DELETE_STORED, 2),
        (Step.OBJECT_DELETED, 3),
        (Step.RECORD_NOT_READ_BACK, 4),
    ),
    *cases(During.READ, (Step.INDEX_CACHE_FILE, 3)),
    *cases(During.FOLLOWING, (Step.LOCAL_SEGMENT_FILE, 3), (Step.SNAPSHOT_FILE, 3)),
    *cases(During.JOINING, (Step.RESTART_FROM_REMOTE, 12)),
]
NEEDS_FOLLOWERS = (During.FOLLOWING, During.JOINING)
QUICK = {
    1: [
        Case(During.COPY, Step.OBJECT_PUT, 3),
        Case(During.COPY, Step.RECORD_NOT_READ_BACK, 2),
        Case(During.DELETION, FaultPoint.AFTER_DELETE_STORED),
        Case(During.PARTITION_DELETION, FaultPoint.BEFORE_PARTITION_MARKED),
    ],
    3: [
        Case(During.COPY, FaultPoint.AFTER_COPY_STORED),
        Case(During.JOINING, Step.RESTART_FROM_REMOTE, 6),
    ],
}
RUNS_ALL = os.environ.get("TIDELOG_CRASHES") == "all"


def chosen(nodes: int) -> list[Case]:
    """The deaths of this run."""
    if not RUNS_ALL:
        return QUICK[nodes]
    return [case for case in ALL if nodes > 1 or case.during not in NEEDS_FOLLOWERS]


def running(nodes: int) -> Iterator[DyingCluster]:
    """A cluster for all tests of this module; at the end everything is looked at once more."""
    with tempfile.TemporaryDirectory(prefix="tidelog-deaths-") as folder:
        cluster = DyingCluster(Path(folder), nodes)
        try:
            yield cluster
            if len(cluster.cluster.running) == nodes:
                for written in list(cluster.settled.values()):
                    cluster.settle(written)
        finally:
            cluster.stop()


@pytest.fixture(scope="module")
def one() -> Iterator[DyingCluster]:
    yield from running(1)


@pytest.fixture(scope="module")
def three() -> Iterator[DyingCluster]:
    yield from running(3)


def test_every_moment_is_in_the_table() -> None:
    assert {case.moment.name for case in ALL} == set(MOMENTS)


@pytest.mark.parametrize("case", chosen(1), ids=str)
def test_a_lone_node_dies_and_comes_back(case: Case, one: DyingCluster) -> None:
    die(case, one)


@pytest.mark.parametrize("case", chosen(3), ids=str)
def test_one_of_three_nodes_dies_and_comes_back(case: Case, three: DyingCluster) -> None:
    die(case, three)


def die(case: Case, cluster: DyingCluster) -> None:
    """Have the death, and judge before and after the node is back."""
    topic = str(case).replace("_", "-")
    written = cluster.create(topic)
    match case.during:
        case During.COPY | During.FOLLOWING:
            die_while_copying(case, cluster, written)
        case During.DELETION:
            die_while_deleting(case, cluster, written)
        case During.PARTITION_DELETION:
            die_while_deleting_the_topic(case, cluster, written)
        case During.READ:
            die_while_reading(case, cluster, written)
        case During.JOINING:
            die_while_joining(case, cluster, written)


def victim(case: Case, cluster: DyingCluster, topic: str) -> int:
    """The leader; a follower where it is a follower's death."""
    leader = cluster.leader(topic)
    if case.during not in NEEDS_FOLLOWERS:
        return leader
    return next(node_id for node_id in cluster.cluster.nodes if node_id != leader)


def go_on_without(cluster: DyingCluster, written: Written, node_id: int) -> None:
    """With others left, they take over and all is well; then the node comes back."""
    if cluster.count > 1:
        cluster.wait_until_led_without(written.topic, node_id)
        cluster.settle(written)
    cluster.start(node_id)
    cluster.wait_until_whole(written.topic)
    cluster.settle(written)


def die_while_copying(case: Case, cluster: DyingCluster, written: Written) -> None:
    node_id = victim(case, cluster, written.topic)
    cluster.arm(node_id, case.moment, case.nth)
    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(cluster.produce, written, SEGMENTS)
        cluster.wait_for_death(node_id)
        if cluster.count == 1:
            cluster.start(node_id)
        producing.result()
    go_on_without(cluster, written, node_id)


def die_while_deleting(case: Case, cluster: DyingCluster, written: Written) -> None:
    cluster.produce(written, SEGMENTS)
    cluster.settle(written)
    node_id = victim(case, cluster, written.topic)
    cluster.arm(node_id, case.moment, case.nth)
    cluster.alter(written.topic, retention_bytes=str(RETAINED_BYTES))
    cluster.wait_for_death(node_id)
    go_on_without(cluster, written, node_id)
    wait_until(lambda: cluster.audit.borders(written.topic).log_start > 0, "retention", timeout_s=TIMEOUT_S)
    cluster.settle(written)
    start = cluster.audit.borders(written.topic).log_start
    assert written.bytes_from(start) >= RETAINED_BYTES * 0.97, f"too much was deleted, up to {start}"


def die_while_deleting_the_topic(case: Case, cluster: DyingCluster, written: Written) -> None:
    cluster.produce(written, SEGMENTS)
    cluster.settle(written)
    del cluster.settled[written.topic]
    node_id = victim(case, cluster, written.topic)
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


def die_while_reading(case: Case, cluster: DyingCluster, written: Written) -> None:
    cluster.produce(written, SEGMENTS)
    cluster.drain(written)  # and nobody reads, which would fill the cache
    node_id = victim(case, cluster, written.topic)
    cluster.arm(node_id, case.moment, case.nth)
    end = cluster.audit.borders(written.topic).end
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(cluster.audit.read, written.topic, 50, end)
        cluster.wait_for_death(node_id)
        if cluster.count == 1:
            cluster.start(node_id)
        assert reading.result() == [(offset, written.values[offset]) for offset in range(50, end)]
    go_on_without(cluster, written, node_id)


def die_while_joining(case: Case, cluster: DyingCluster, written: Written) -> None:
    cluster.produce(written, SEGMENTS)
    cluster.settle(written)
    node_id = victim(case, cluster, written.topic)
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


async def lead(cluster: DyingCluster, topic: str, node_id: int) -> None:
    """Have a replica elected by making it the preferred one."""
    name = TopicPartition(topic, 0)
    order = [node_id, *(each for each in cluster.cluster.nodes if each != node_id)]
    async with Admin(cluster.cluster.bootstrap_servers) as admin:
        assert (await admin.alter_partition_reassignments({name: order}))[name] is None
        assert (await admin.elect_leaders(ElectionType.PREFERRED, [name]))[name] is None
