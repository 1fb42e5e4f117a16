"""Replica directories are reported to the controller."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_manager import NODE, Replicas
from tests.support.waiting import eventually
from tidelog.broker.replication.directory_assignments import DirectoryAssignments
from tidelog.cluster.replica_directories import LOST
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.storage.disk.errors import StorageFailure

FIRST, SECOND = UUID(int=9_001), UUID(int=9_002)


class FakeChannel:
    """Responds at once; the first `failures` requests fail."""

    def __init__(self, failures: int = 0) -> None:
        self.requests: list[AssignReplicasToDirsRequest] = []
        self.failures = failures
        self.failure: Exception = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller")

    async def request(self, message: Any, response: type[Any], *, deadline: int) -> Any:
        self.requests.append(message)
        if len(self.requests) <= self.failures:
            raise self.failure
        return AssignReplicasToDirsResponse()

    def assignments_by_directory(self) -> dict[UUID, int]:
        return {
            directory.id: sum(len(topic.partitions) for topic in directory.topics)
            for directory in self.requests[-1].directories
        }


def assignments_fixture(
    failures: int = 0, *, is_listener: bool = True
) -> tuple[Replicas, FakeChannel, DirectoryAssignments]:
    replicas = Replicas(None, "/first", "/second")
    channel = FakeChannel(failures)
    ids = {"/first": FIRST, "/second": SECOND}
    assignments = DirectoryAssignments(channel, NODE, lambda: 101, ids, ManualClock())
    if is_listener:
        replicas.manager.add_listener(assignments)
    return replicas, channel, assignments


async def test_a_replica_in_another_directory_than_recorded_is_reported() -> None:
    replicas, channel, assignments = assignments_fixture()
    replicas.create("t", 4)
    await eventually(lambda: channel.requests)
    assert channel.assignments_by_directory() == {FIRST: 2, SECOND: 2}
    assert (channel.requests[0].broker_id, channel.requests[0].broker_epoch) == (NODE, 101)
    await assignments.close()


async def test_nothing_is_reported_below_metadata_version_3_7_iv2_and_all_after_the_upgrade() -> None:
    replicas, channel, assignments = assignments_fixture()
    replicas.replay(FeatureLevelRecord(name="metadata.version", feature_level=16))
    replicas.create("t", 4)
    await loop_iterations(10)
    assert channel.requests == []
    replicas.replay(FeatureLevelRecord(name="metadata.version", feature_level=17))
    assignments.check(replicas.manager.partitions.values(), replicas.image)
    await eventually(lambda: channel.requests)
    assert channel.assignments_by_directory() == {FIRST: 2, SECOND: 2}
    await assignments.close()


async def test_a_failed_assignment_is_reported_again() -> None:
    replicas, channel, assignments = assignments_fixture(failures=1)
    replicas.create("t", 2)
    await eventually(lambda: len(channel.requests) == 2)
    assert channel.assignments_by_directory() == {FIRST: 1, SECOND: 1}
    await assignments.close()


@pytest.mark.parametrize("fault", [RuntimeError("a bug"), AssertionError("an unexpected FetchResponse")])
async def test_an_error_during_reporting_does_not_lose_assignments(fault: Exception) -> None:
    """Otherwise the controller would elect no other leader when the disk of such a replica fails."""
    replicas, channel, assignments = assignments_fixture(failures=1)
    channel.failure = fault
    replicas.create("t", 2)
    await eventually(lambda: len(channel.requests) == 2)
    assert channel.assignments_by_directory() == {FIRST: 1, SECOND: 1}
    await assignments.close()


async def test_a_replica_whose_disk_failed_before_its_creation_is_reported_as_offline() -> None:
    """Otherwise this node would remain leader of a replica without a directory that the controller knows."""
    replicas, channel, assignments = assignments_fixture()
    log_work = replicas.defer_log_work()
    replicas.create("t", 1, replicas=(NODE, 2), isr=(NODE, 2))
    log_work.finish(StorageFailure("/first/t-0", "open", "read-only file system"))
    assert replicas.manager.unavailable_count == 1
    await eventually(lambda: channel.requests)
    assert channel.assignments_by_directory() == {LOST: 1}
    await assignments.close()


async def test_a_topic_recreated_in_one_delta_is_not_lost() -> None:
    """A snapshot has only the newer topic: the older log is removed while the newer one is created."""
    replicas, channel, assignments = assignments_fixture()
    log_work = replicas.defer_log_work()
    older, newer = replicas.create("t"), UUID(int=77)
    log_work.finish_all()
    await eventually(lambda: channel.requests)
    partition = PartitionRecord(
        partition_id=0, topic_id=newer, replicas=(NODE,), isr=(NODE,), leader=NODE, leader_epoch=0
    )
    replicas.replay(RemoveTopicRecord(topic_id=older), TopicRecord(name="t", topic_id=newer), partition)
    await loop_iterations(10)
    log_work.finish_all()
    await eventually(lambda: len(channel.requests) > 1)
    assert LOST not in {each.id for requests in channel.requests for each in requests.directories}
    await assignments.close()


async def test_existing_replicas_are_compared_and_correct_ones_not_reported() -> None:
    replicas, channel, assignments = assignments_fixture(is_listener=False)
    topic_id = replicas.create("t", 2)
    partitions = list(replicas.manager.partitions.values())
    right = [one for one in partitions if one.log.directory.startswith("/first")]
    assert len(right) == 1
    index = right[0].topic_partition.partition
    replicas.replay(PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=(FIRST,)))
    assignments.check(right, replicas.image)
    assert channel.requests == []
    assignments.check(partitions, replicas.image)
    await eventually(lambda: channel.requests)
    assert channel.assignments_by_directory() == {SECOND: 1}
    await assignments.close()


async def test_the_target_of_a_move_is_reported_until_it_is_withdrawn() -> None:
    replicas, channel, assignments = assignments_fixture()
    topic_id = replicas.create("t", 1)
    await eventually(lambda: channel.requests)
    assert channel.assignments_by_directory() == {FIRST: 1}
    assignments.assign(topic_id, 0, SECOND)
    await eventually(lambda: len(channel.requests) == 2)
    assert channel.assignments_by_directory() == {SECOND: 1}
    assignments.withdraw(topic_id, 0, FIRST)
    await eventually(lambda: len(channel.requests) == 3)
    assert channel.assignments_by_directory() == {FIRST: 1}
    assignments.withdraw(topic_id, 0, FIRST)
    await loop_iterations(5)
    assert len(channel.requests) == 3, "nothing was assigned"
    await assignments.close()
