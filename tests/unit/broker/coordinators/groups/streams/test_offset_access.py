"""Commits of members of streams groups: the current epoch, older epochs, transactions, other senders."""

from __future__ import annotations

import pytest

from tests.support.configs import streams_group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.streams_members import StreamsClient, streams_group
from tidelog.broker.coordinators.groups.consumer.offset_access import Committer
from tidelog.broker.coordinators.groups.streams.offset_access import check_streams_commit
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

CONFIG = streams_group_config(
    group_streams_assignment_interval_ms=0, group_streams_initial_rebalance_delay_ms=0
)
LINES, WORDS = TopicPartition("lines", 0), TopicPartition("words", 1)


@pytest.fixture
def coordinator() -> GroupCoordinatorFixture:
    """Return a coordinator of a group whose only member got its tasks at epoch 3 and is in epoch 4."""
    coordinator = GroupCoordinatorFixture(streams_config=CONFIG)
    coordinator.add_partitions("lines", 2)
    member = StreamsClient("a")
    member.join_with_topics(coordinator)
    other = StreamsClient("b")
    other.heartbeat(coordinator)
    other.leave(coordinator)
    member.heartbeat(coordinator)
    member.heartbeat(coordinator)
    assert streams_group(coordinator).members["a"].member_epoch > 3
    return coordinator


def error_of(
    coordinator: GroupCoordinatorFixture,
    epoch: int,
    *partitions: TopicPartition,
    member_id: str = "a",
    version: int | None = 9,
) -> ErrorCode:
    try:
        group = streams_group(coordinator)
        check_streams_commit(group, Committer(member_id, None, epoch, version), partitions)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_the_current_epoch_may_commit_every_partition(coordinator: GroupCoordinatorFixture) -> None:
    epoch = streams_group(coordinator).members["a"].member_epoch
    assert error_of(coordinator, epoch, LINES, TopicPartition("other", 0)) is ErrorCode.NONE
    assert error_of(coordinator, epoch + 1, LINES) is ErrorCode.STALE_MEMBER_EPOCH
    assert error_of(coordinator, epoch + 1, LINES, version=None) is ErrorCode.ILLEGAL_GENERATION


def test_an_older_epoch_may_commit_the_tasks_that_it_had(coordinator: GroupCoordinatorFixture) -> None:
    member = streams_group(coordinator).members["a"]
    assigned_at = member.assignment_epoch("0", 0)
    assert assigned_at is not None and assigned_at < member.member_epoch
    assert error_of(coordinator, assigned_at, LINES) is ErrorCode.NONE
    assert error_of(coordinator, assigned_at - 1, LINES) is ErrorCode.STALE_MEMBER_EPOCH
    assert error_of(coordinator, assigned_at, TopicPartition("other", 0)) is ErrorCode.STALE_MEMBER_EPOCH
    assert error_of(coordinator, assigned_at, TopicPartition("words", 9)) is ErrorCode.STALE_MEMBER_EPOCH
    assert error_of(coordinator, assigned_at - 1, WORDS, version=None) is ErrorCode.ILLEGAL_GENERATION


def test_other_senders_may_not_commit_while_the_group_has_members(
    coordinator: GroupCoordinatorFixture,
) -> None:
    assert error_of(coordinator, -1, LINES, member_id="") is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(coordinator, 3, LINES, member_id="b") is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(coordinator, -1, LINES, member_id="", version=None) is ErrorCode.NONE
    assert error_of(coordinator, 3, LINES, version=8) is ErrorCode.UNSUPPORTED_VERSION
    StreamsClient("a").leave(coordinator)
    assert error_of(coordinator, -1, LINES, member_id="") is ErrorCode.NONE
