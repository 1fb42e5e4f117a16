"""Streams groups after a reload, in the APIs of administrators, and their offsets."""

from __future__ import annotations

import pytest

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.streams_members import (
    StreamsClient,
    streams_coordinator,
    streams_group,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tidelog.protocol.messages.streams_group_heartbeat import (
    KeyValue,
)
from tidelog.protocol.steps import run_steps

WORDS, COUNTS = "words", "counts"


@pytest.fixture
def coordinator() -> GroupCoordinatorFixture:
    """Return a coordinator that assigns at once."""
    return streams_coordinator()


def test_a_reloaded_coordinator_continues_with_the_group(coordinator: GroupCoordinatorFixture) -> None:
    member = StreamsClient("a", endpoint=("left", 1))
    member.join_with_topics(coordinator)
    group = streams_group(coordinator)
    moved = coordinator.reload()
    loaded = streams_group(moved)
    assert loaded.members == group.members
    assert loaded.target == group.target
    assert loaded.topology == group.topology
    assert (loaded.epochs.group_epoch, loaded.epochs.metadata_hash, loaded.epochs.assignment_epoch) == (
        group.epochs.group_epoch,
        group.epochs.metadata_hash,
        group.epochs.assignment_epoch,
    )
    assert loaded.validated_topology_epoch == group.validated_topology_epoch
    assert loaded.memory.used_bytes == group.memory.used_bytes
    member.heartbeat(moved)
    assert (member.epoch, len(member.active)) == (group.epochs.group_epoch, 4), "no new epoch"


def test_a_group_without_members_is_deleted_with_its_records(coordinator: GroupCoordinatorFixture) -> None:
    member = StreamsClient("a")
    member.join_with_topics(coordinator)
    administration = coordinator.coordinator.administration
    [result] = administration.delete_groups(["g"]).reply
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave(coordinator)
    assert coordinator.finish(administration.delete_groups(["g"]))[0].error_code == ErrorCode.NONE
    assert coordinator.coordinator._groups.streams.find("g") is None
    assert coordinator.coordinator.member_memory.used_bytes == 0
    last = dict(coordinator.log)
    assert all(value is None for value in last.values()), "every key has a tombstone"


def test_groups_are_listed_and_described(coordinator: GroupCoordinatorFixture) -> None:
    StreamsClient("a").heartbeat(coordinator)
    administration = coordinator.coordinator.administration
    [listed] = run_steps(administration.list_groups(frozenset({"not_ready"}), frozenset({"streams"})))
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("streams", "streams", "NotReady")
    assert run_steps(administration.list_groups(frozenset({"stable"}), frozenset())) == []
    described = run_steps(coordinator.coordinator.streams.describe("g"))
    assert described.topology is not None and described.topology.subtopologies is not None
    words = described.topology.subtopologies[1].repartition_source_topics[0]
    assert (words.name, words.partitions) == (WORDS, 0)
    coordinator.add_partitions(WORDS, 2)
    coordinator.add_partitions(COUNTS, 2)
    StreamsClient("a", epoch=2).heartbeat(coordinator)
    described = run_steps(coordinator.coordinator.streams.describe("g"))
    assert described.topology is not None and described.topology.subtopologies is not None
    changelog = described.topology.subtopologies[1].state_changelog_topics[0]
    assert (changelog.name, changelog.partitions) == (COUNTS, 2)
    assert changelog.topic_configs[0].key == KeyValue(key="cleanup.policy").key
    [member] = described.members
    assert [(tasks.subtopology_id, tasks.partitions) for tasks in member.assignment.active_tasks] == [
        ("0", (0, 1)),
        ("1", (0, 1)),
    ]
    assert administration.describe_group("g", 6).error_message == "Group g is not a classic group."
    other = run_steps(coordinator.coordinator.streams.describe("other"))
    assert (other.error_code, other.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group other not found.",
    )


def test_offsets_of_an_empty_group_expire_and_then_the_group(coordinator: GroupCoordinatorFixture) -> None:
    member = StreamsClient("a")
    member.join_with_topics(coordinator)
    coordinator.commit({("lines", 0): 5}, member_id="a", generation=member.epoch)
    for _ in range(2):
        coordinator.now_ms += coordinator.config.offsets_retention_ms
        for writes in coordinator.coordinator.expiration.expire(coordinator.now):
            coordinator.perform(writes)
        if streams_group(coordinator).members:
            assert coordinator.coordinator.committed_offsets.size == 1, "members still read the topic"
            member.leave(coordinator)
            for writes in coordinator.coordinator.expiration.expire(coordinator.now):
                coordinator.perform(writes)
            break
    assert coordinator.coordinator.committed_offsets.size == 0
    assert coordinator.coordinator._groups.streams.find("g") is None


def test_members_with_another_epoch_may_not_fetch_offsets(coordinator: GroupCoordinatorFixture) -> None:
    member = StreamsClient("a")
    member.join_with_topics(coordinator)
    fetch = coordinator.coordinator.offset_fetch
    fetch.check_sender(OffsetFetchRequestGroup(group_id="g", member_id="a", member_epoch=member.epoch))
    fetch.check_sender(OffsetFetchRequestGroup(group_id="g", member_id=None, member_epoch=-1))
    with pytest.raises(KafkaError) as error:
        fetch.check_sender(OffsetFetchRequestGroup(group_id="g", member_id="a", member_epoch=1))
    assert error.value.code is ErrorCode.STALE_MEMBER_EPOCH
