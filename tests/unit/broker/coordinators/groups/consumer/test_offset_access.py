"""OffsetCommit, OffsetFetch, OffsetDelete and expiration in consumer groups."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.support.configs import consumer_group_config, group_config
from tests.support.groups.consumer_members import MemberClient
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.consumer.offset_access import Committer, check_commit, check_fetch
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tidelog.protocol.steps import run_steps


@pytest.fixture
def coordinator() -> GroupCoordinatorFixture:
    fixture = GroupCoordinatorFixture(
        config=group_config(offsets_retention_minutes=1),
        consumer_config=consumer_group_config(group_consumer_assignment_interval_ms=0),
    )
    fixture.add_partitions("t", 2)
    fixture.add_partitions("u", 1)
    return fixture


def commit_error(coordinator: GroupCoordinatorFixture, *, version: int = 9, **sender: object) -> ErrorCode:
    (error,) = coordinator.commit({("t", 0): 1}, version=version, **sender)  # type: ignore[arg-type]
    return error


def test_a_member_commits_with_its_epoch(coordinator: GroupCoordinatorFixture) -> None:
    member = MemberClient("a")
    member.heartbeat(coordinator)
    assert commit_error(coordinator, member_id="a", generation=member.epoch) is ErrorCode.NONE
    assert commit_error(coordinator, member_id="a", generation=1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit_error(coordinator, member_id="a", generation=3) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit_error(coordinator, member_id="b", generation=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_error(coordinator) is ErrorCode.UNKNOWN_MEMBER_ID
    old = commit_error(coordinator, member_id="a", generation=2, version=8)
    assert old is ErrorCode.UNSUPPORTED_VERSION


def test_a_member_that_has_not_received_its_new_epoch_commits_for_what_it_had_before(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = MemberClient("a")
    member.heartbeat(coordinator)
    before = member.epoch
    coordinator.add_partitions("t", 1)
    member.heartbeat(coordinator, loses_response=True)
    assert commit_error(coordinator, member_id="a", generation=before) is ErrorCode.NONE
    new_partition = coordinator.commit({("t", 2): 1}, member_id="a", generation=before)
    assert new_partition == [ErrorCode.STALE_MEMBER_EPOCH]


def test_an_administrator_commits_while_the_group_is_empty(coordinator: GroupCoordinatorFixture) -> None:
    member = MemberClient("a")
    member.heartbeat(coordinator)
    member.leave(coordinator)
    assert commit_error(coordinator) is ErrorCode.NONE
    assert commit_error(coordinator, member_id="a", generation=2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_in_a_transaction_has_the_error_of_a_generation(
    coordinator: GroupCoordinatorFixture,
) -> None:
    MemberClient("a").heartbeat(coordinator)
    group = coordinator.coordinator._groups.consumers.find("g")
    assert group is not None
    check_commit(group, Committer("", None, -1, None), ())
    check_commit(group, Committer("a", None, 2, None), ())
    for epoch in (1, 3):
        with pytest.raises(KafkaError) as error:
            check_commit(group, Committer("a", None, epoch, None), [(coordinator.topic_id("t"), 0)])
        assert error.value.code is ErrorCode.ILLEGAL_GENERATION


def test_a_member_fetches_with_its_epoch_and_an_administrator_without_one(
    coordinator: GroupCoordinatorFixture,
) -> None:
    MemberClient("a").heartbeat(coordinator)
    group = coordinator.coordinator._groups.consumers.find("g")
    assert group is not None
    check_fetch(group, None, -1)
    check_fetch(group, "a", 2)
    with pytest.raises(KafkaError) as stale:
        request = OffsetFetchRequestGroup(group_id="g", member_id="a", member_epoch=1)
        coordinator.coordinator.offset_fetch.check_sender(request)
    assert stale.value.code is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(KafkaError) as unknown:
        check_fetch(group, "b", 2)
    assert unknown.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_subscribed_topics_are_neither_deleted_nor_expired(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = MemberClient("a")
    member.heartbeat(coordinator)
    coordinator.commit({("t", 0): 1}, member_id="a", generation=2)
    coordinator.commit({("u", 0): 1}, member_id="a", generation=2)
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    request = OffsetDeleteRequest(
        group_id="g", topics=(OffsetDeleteRequestTopic(name="t", partitions=partitions),)
    )
    response = coordinator.finish(coordinator.coordinator.offsets.delete(request))
    error = response.topics[0].partitions[0].error_code
    assert error == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    for _ in range(3):
        coordinator.pass_time(30_000)
        member.heartbeat(coordinator)
    for writes in coordinator.coordinator.expiration.expire(coordinator.now):
        coordinator.perform(writes)
    store = coordinator.coordinator._offsets.latest
    assert list(store.offsets_of_group("g")) == ["t"]


def test_an_empty_group_whose_offsets_have_expired_is_removed(coordinator: GroupCoordinatorFixture) -> None:
    member = MemberClient("a")
    member.heartbeat(coordinator)
    coordinator.commit({("t", 0): 1}, member_id="a", generation=2)
    member.leave(coordinator)
    coordinator.pass_time(60_000)
    for writes in coordinator.coordinator.expiration.expire(coordinator.now):
        coordinator.perform(writes)
    assert coordinator.coordinator._groups.find("g") is None


def test_groups_are_listed_by_type_and_state(coordinator: GroupCoordinatorFixture) -> None:
    MemberClient("a").heartbeat(coordinator)
    coordinator.commit({("t", 0): 1}, group_id="simple")
    administration = coordinator.coordinator.administration

    def list_groups(states: Collection[str], types: Collection[str]) -> list[tuple[str, str, str]]:
        groups = run_steps(administration.list_groups(states, types))
        return [(group.group_id, group.group_type, group.group_state) for group in groups]

    assert list_groups((), ("consumer",)) == [("g", "consumer", "Stable")]
    assert list_groups((), ("classic",)) == [("simple", "classic", "Empty")]
    assert list_groups(("stable",), ()) == [("g", "consumer", "Stable")]
