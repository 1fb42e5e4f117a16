"""Three brokers of one partition: isolation, elections, reassignment; no acknowledged record is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.support.configs import controller_settings
from tests.support.replicas.replica_group import THE_PARTITION, ReplicaGroup, commit_outcome
from tests.support.waiting import eventually
from tidelog.broker.partitions.partition import Partition
from tidelog.cluster.controller.reassignments import alter_partition_reassignments
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.steps import run_steps

LAG_MS = 30_000


@pytest.fixture
async def group() -> AsyncIterator[ReplicaGroup]:
    group = ReplicaGroup(configs={"min.insync.replicas": "2"})
    yield group
    await group.close()


async def test_acknowledged_records_are_on_all_three_replicas(group: ReplicaGroup) -> None:
    produced = [group.produce(f"value {index}") for index in range(20)]
    assert commit_outcome(produced[0]) is None
    await eventually(lambda: all(commit_outcome(one) is ErrorCode.NONE for one in produced))
    await eventually(group.are_equal)


async def test_an_isolated_follower_leaves_the_isr_and_rejoins_when_caught_up(
    group: ReplicaGroup,
) -> None:
    await eventually(lambda: commit_outcome(group.produce("a")) is None)
    await eventually(group.are_equal)
    group.isolate(3)
    waiting = group.produce("b", "c")
    await eventually(lambda: group.members[2].partition.log.log_end_offset == waiting[1])
    assert commit_outcome(waiting) is None
    group.pass_ms(LAG_MS + 1)
    await eventually(lambda: commit_outcome(waiting) is ErrorCode.NONE)
    assert group.partition_image.isr == (1, 2)
    for _ in range(10):
        group.produce("d")
    group.reconnect(3)
    await eventually(lambda: set(group.partition_image.isr) == {1, 2, 3})
    await eventually(group.are_equal)


async def test_an_isolated_leader_acknowledges_nothing_and_truncates_its_records(
    group: ReplicaGroup,
) -> None:
    before = group.produce("kept")
    await eventually(lambda: commit_outcome(before) is ErrorCode.NONE)
    group.isolate(1)
    lost = group.produce("never acknowledged", at=1)
    group.fence(1)
    assert group.partition_image.leader == 2
    after = group.produce("kept too")
    await eventually(lambda: commit_outcome(after) is ErrorCode.NONE)
    group.pass_ms(LAG_MS + 1)
    assert commit_outcome(lost) is None
    group.reconnect(1)
    assert commit_outcome(lost) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await eventually(lambda: set(group.partition_image.isr) == {1, 2, 3})
    await eventually(group.are_equal)
    assert group.leader.log.log_end_offset == 2


async def test_a_single_leader_refuses_acks_all_and_commits_nothing_until_another_replica_joins(
    group: ReplicaGroup,
) -> None:
    first = group.produce("a")
    await eventually(lambda: commit_outcome(first) is ErrorCode.NONE)
    for node_id in (2, 3):
        group.isolate(node_id)
        group.fence(node_id)
    assert group.partition_image.isr == (1,)
    with pytest.raises(KafkaError) as refused:
        group.produce("b")
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    group.produce("with acks=1", acks=1)
    group.pass_ms(LAG_MS + 1)
    assert group.leader.log.high_watermark == 1
    group.reconnect(2)
    await eventually(lambda: group.leader.log.high_watermark == 2)
    assert set(group.partition_image.isr) == {1, 2}


def is_written(produced: tuple[Partition, int]) -> bool:
    return commit_outcome(produced) is ErrorCode.NONE


async def test_repeated_leader_changes_keep_every_acknowledged_record(group: ReplicaGroup) -> None:
    for turn in range(9):
        produced = group.produce(f"turn {turn}")
        await eventually(partial(is_written, produced))
        group.move_leader(turn % 3 + 1)
    group.produce("the last")
    await eventually(group.are_equal)
    assert group.leader.log.log_end_offset == 10
    assert len(group.leader.log.leader_epochs.entries) == 10


async def test_a_reassignment_moves_the_partition_and_deletes_the_old_replica() -> None:
    group = ReplicaGroup(4)
    produced = [group.produce(f"value {index}") for index in range(5)]
    await eventually(lambda: all(commit_outcome(one) is ErrorCode.NONE for one in produced))
    request = AlterPartitionReassignmentsRequest(
        topics=(
            ReassignableTopic(
                name="t", partitions=(ReassignablePartition(partition_index=0, replicas=(4, 2, 3)),)
            ),
        )
    )
    result = run_steps(alter_partition_reassignments(group.image, controller_settings(node_id=1), request))
    group.publish(*result.records)
    await eventually(lambda: group.partition_image.replicas == (4, 2, 3))
    assert 1 not in group.partition_image.isr
    assert THE_PARTITION not in group.members[1].replicas.manager.partitions
    after = group.produce("after")
    await eventually(lambda: commit_outcome(after) is ErrorCode.NONE)
    await eventually(group.are_equal)
    await group.close()
