"""Committing, fetching and deleting offsets: permissions and visibility."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.configs import group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture, subscription
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequestTopics
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import run_steps

ID_1, ID_2 = UUID(int=1), UUID(int=2)


def delete(
    fixture: GroupCoordinatorFixture, *partitions: tuple[str, int], group_id: str = "g"
) -> list[ErrorCode]:
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=topic, partitions=(OffsetDeleteRequestPartition(partition_index=index),)
            )
            for topic, index in partitions
        ),
    )
    reply = fixture.finish(fixture.coordinator.offsets.delete(request))
    return [ErrorCode(p.error_code) for topic in reply.topics for p in topic.partitions]


def commit_with_id(fixture: GroupCoordinatorFixture, topic_id: UUID, offset: int) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=3
    )
    topic = OffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=(partition,))
    fixture.finish(fixture.commit_outcome(OffsetCommitRequest(group_id="g", topics=(topic,)), 10))


def test_a_simple_consumer_commits_without_joining() -> None:
    fixture = GroupCoordinatorFixture()
    assert fixture.commit({("t", 0): 5, ("u", 1): 7}) == [ErrorCode.NONE, ErrorCode.NONE]
    assert fixture.offsets() == {("t", 0): 5, ("u", 1): 7}
    assert fixture.state() == "Empty"
    assert fixture.reload().offsets() == fixture.offsets()


def test_the_group_with_an_empty_name_may_commit() -> None:
    fixture = GroupCoordinatorFixture()
    assert fixture.commit({("t", 0): 5}, group_id="") == [ErrorCode.NONE]
    assert fixture.offset("t", 0, group_id="") == (5, ErrorCode.NONE)


def test_an_uncommitted_offset_is_minus_one() -> None:
    fixture = GroupCoordinatorFixture()
    assert fixture.offset("t", 0) == (-1, ErrorCode.NONE)
    fixture.commit({("t", 0): 5})
    assert fixture.offset("t", 1) == (-1, ErrorCode.NONE)
    assert fixture.offset("u", 0) == (-1, ErrorCode.NONE)


def test_a_committed_offset_may_decrease() -> None:
    fixture = GroupCoordinatorFixture()
    fixture.commit({("t", 0): 5})
    fixture.commit({("t", 0): 2})
    assert fixture.offsets() == {("t", 0): 2}


def test_leader_epoch_and_metadata_are_kept() -> None:
    fixture = GroupCoordinatorFixture()
    commit_with_id(fixture, ID_1, 5)
    requested = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    for coordinator in (fixture.coordinator, fixture.reload().coordinator):
        (topic,) = run_steps(coordinator.offset_fetch.fetch("g", requested, False))
        assert topic.partitions[0].committed_leader_epoch == 3
        (everything,) = run_steps(coordinator.offset_fetch.fetch_all("g", False))
        assert everything.topic_id == ID_1


def test_an_offset_of_a_deleted_topic_with_the_name_is_ignored() -> None:
    fixture = GroupCoordinatorFixture()
    commit_with_id(fixture, ID_1, 5)
    offsets = {
        topic_id: run_steps(
            fixture.coordinator.offset_fetch.fetch(
                "g", (OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=(0,)),), False
            )
        )[0]
        .partitions[0]
        .committed_offset
        for topic_id in (ID_1, ID_2, ZERO_UUID)
    }
    assert offsets == {ID_1: 5, ID_2: -1, ZERO_UUID: 5}


def test_only_members_of_the_generation_may_commit_to_a_nonempty_group() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    offsets = {("t", 0): 1}
    assert fixture.commit(offsets) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert fixture.commit(offsets, member_id="m", generation=1) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert fixture.commit(offsets, member_id=one, generation=0) == [ErrorCode.ILLEGAL_GENERATION]
    assert fixture.commit(offsets, member_id=one) == [ErrorCode.ILLEGAL_GENERATION]
    assert fixture.offsets() == {}
    assert fixture.commit(offsets, member_id=one, generation=1) == [ErrorCode.NONE]


def test_members_may_commit_in_preparing_rebalance_but_not_in_completing_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    _, join = fixture.join_as_new_member()
    assert fixture.commit({("t", 0): 1}, member_id=one, generation=1) == [ErrorCode.NONE]
    fixture.join(member_id=one)
    assert join.error is ErrorCode.NONE
    assert fixture.commit({("t", 0): 2}, member_id=one, generation=2) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert fixture.offsets() == {("t", 0): 1}


@pytest.mark.parametrize(
    ("version", "error"),
    [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_member_of_an_unknown_group_cannot_commit(version: int, error: ErrorCode) -> None:
    fixture = GroupCoordinatorFixture()
    assert fixture.commit({("t", 0): 1}, member_id="m", generation=1, version=version) == [error]


def test_any_client_may_commit_for_a_group_without_members() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    fixture.leave((one, None))
    assert fixture.commit({("t", 0): 9}) == [ErrorCode.NONE]
    assert fixture.commit({("t", 0): 9}, member_id=one, generation=1) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_oversized_metadata_is_refused_for_its_partition_only() -> None:
    fixture = GroupCoordinatorFixture(group_config(offset_metadata_max_bytes=4))
    assert fixture.commit({("t", 0): 1}, metadata="12345") == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert run_steps(fixture.coordinator.administration.list_groups((), ())) == []
    assert fixture.commit({("t", 0): 1}, metadata="1234") == [ErrorCode.NONE]
    (topic,) = run_steps(fixture.coordinator.offset_fetch.fetch_all("g", False))
    assert topic.partitions[0].metadata == "1234"


def test_a_commit_that_cannot_be_written_changes_nothing() -> None:
    fixture = GroupCoordinatorFixture(append_error=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert fixture.commit({("t", 0): 1}) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    fixture.append_error = None
    assert fixture.offsets() == {}
    assert run_steps(fixture.coordinator.administration.list_groups((), ())) == []


def test_an_offset_is_visible_when_its_record_is_committed() -> None:
    fixture = GroupCoordinatorFixture()
    fixture.commit({("t", 0): 1})
    fixture.holds_commits = True
    fixture.commit({("t", 0): 2})
    fixture.commit({("t", 0): 3, ("t", 1): 4})
    assert fixture.offsets() == {("t", 0): 1}
    fixture.coordinator.advance(2)
    assert fixture.offsets() == {("t", 0): 2}
    fixture.commit_all()
    assert fixture.offsets() == {("t", 0): 3, ("t", 1): 4}


def test_offsets_of_topics_without_subscription_can_be_deleted() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1, protocols=[("range", subscription("t"))])
    fixture.commit({("t", 0): 1, ("u", 0): 2}, member_id=one, generation=1)
    assert delete(fixture, ("t", 0), ("u", 0), ("u", 1)) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert fixture.offsets() == {("t", 0): 1}
    assert fixture.reload().offsets() == {("t", 0): 1}
    fixture.leave((one, None))
    assert delete(fixture, ("t", 0)) == [ErrorCode.NONE]
    assert fixture.offsets() == {}


def test_unreadable_subscriptions_retain_all_offsets() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1, protocols=[("range", b"\0\0garbage")])
    fixture.commit({("u", 0): 2}, member_id=one, generation=1)
    assert delete(fixture, ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_offsets_are_not_deleted_for_groups_that_are_unknown_or_no_consumers() -> None:
    fixture = GroupCoordinatorFixture()
    for group_id, error in [("", ErrorCode.INVALID_GROUP_ID), ("g", ErrorCode.GROUP_ID_NOT_FOUND)]:
        with pytest.raises(KafkaError) as raised:
            delete(fixture, ("t", 0), group_id=group_id)
        assert raised.value.code is error
    fixture.stable_group(1, protocol_type="connect", protocols=[("compatible", b"")])
    with pytest.raises(KafkaError) as raised:
        delete(fixture, ("t", 0))
    assert raised.value.code is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_a_deleted_topic_are_removed_but_not_those_of_the_recreated_one() -> None:
    fixture = GroupCoordinatorFixture()
    commit_with_id(fixture, ID_1, 5)
    fixture.commit({("u", 0): 6})
    fixture.perform(fixture.coordinator.offsets.delete_of_topics({"t": ID_2}))
    assert fixture.offsets() == {("t", 0): 5, ("u", 0): 6}
    fixture.perform(fixture.coordinator.offsets.delete_of_topics({"t": ID_1}))
    assert fixture.offsets() == {("u", 0): 6}
    fixture.perform(fixture.coordinator.offsets.delete_of_topics({"u": ID_2}))
    assert fixture.offsets() == {}
