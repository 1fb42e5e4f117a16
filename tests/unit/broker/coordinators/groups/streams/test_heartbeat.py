"""StreamsGroupHeartbeat: epochs, fencing, topics, assignments, revocation, delays, endpoints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.streams_members import (
    STREAMS_CONFIG,
    WORD_COUNT,
    StreamsClient,
    create_missing,
    streams_coordinator,
    streams_group,
)
from tidelog.broker.coordinators.groups.streams.group import StreamsGroupState
from tidelog.broker.coordinators.groups.streams.member import MemberState
from tidelog.broker.coordinators.groups.streams.topology_status import HeartbeatStatus
from tidelog.cluster.image import ResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.streams_group_heartbeat import (
    Subtopology,
    TopicInfo,
    Topology,
)

SESSION_MS = 45_000
WORDS, COUNTS = "words", "counts"


@pytest.fixture
def coordinator() -> GroupCoordinatorFixture:
    """Return a coordinator that assigns at once."""
    return streams_coordinator()


def rejection(
    member: StreamsClient, coordinator: GroupCoordinatorFixture, epoch: int
) -> tuple[ErrorCode, str]:
    with pytest.raises(KafkaError) as error:
        member.send(coordinator, epoch)
    return error.value.code, str(error.value)


def set_standby_replicas(coordinator: GroupCoordinatorFixture, count: int) -> None:
    configs = {(int(ResourceType.GROUP), "g"): {"streams.num.standby.replicas": str(count)}}
    coordinator.image = replace(coordinator.image, configs=configs)


# Joining


def test_the_first_member_gets_tasks_when_the_internal_topics_exist(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = StreamsClient("a")
    response = member.heartbeat(coordinator)
    assert (response.member_epoch, response.heartbeat_interval_ms) == (2, 5000)
    assert member.active == set()
    assert member.statuses() == [HeartbeatStatus.MISSING_INTERNAL_TOPICS]
    assert [(topic.name, topic.partition_count) for topic in member.missing] == [(COUNTS, 2), (WORDS, 2)]
    assert streams_group(coordinator).state is StreamsGroupState.NOT_READY
    create_missing(coordinator, member)
    member.heartbeat(coordinator)
    assert member.epoch == 3
    assert member.active == {("0", 0), ("0", 1), ("1", 0), ("1", 1)}
    assert member.statuses() == []
    assert streams_group(coordinator).state is StreamsGroupState.STABLE


def test_members_wait_for_a_missing_source_topic_and_get_tasks_when_it_exists() -> None:
    coordinator = GroupCoordinatorFixture(streams_config=STREAMS_CONFIG)
    member = StreamsClient("a")
    response = member.heartbeat(coordinator)
    assert member.statuses() == [HeartbeatStatus.MISSING_SOURCE_TOPICS]
    assert response.status is not None
    assert response.status[0].status_detail == "Source topics lines are missing."
    assert member.missing == ()
    coordinator.add_partitions("lines", 1)
    member.join_with_topics(coordinator)
    assert member.active == {("0", 0), ("1", 0)}


def test_the_initial_delay_collects_members_before_the_first_assignment() -> None:
    coordinator = streams_coordinator(group_streams_initial_rebalance_delay_ms=3000)
    first, second = StreamsClient("a"), StreamsClient("b")
    first.heartbeat(coordinator)
    create_missing(coordinator, first)
    assert first.epoch == 1
    assert HeartbeatStatus.ASSIGNMENT_DELAYED in first.statuses()
    second.heartbeat(coordinator)
    coordinator.pass_time(2_999)
    first.heartbeat(coordinator)
    assert first.active == set()
    coordinator.pass_time(1)
    epochs = streams_group(coordinator).epochs
    assert epochs.assignment_epoch == epochs.group_epoch
    for member in (first, second):
        member.heartbeat(coordinator)
        assert len(member.active) == 2


def test_a_group_without_heartbeats_during_the_delay_is_assigned_when_it_ends() -> None:
    coordinator = streams_coordinator(group_streams_initial_rebalance_delay_ms=3000)
    coordinator.add_partitions(WORDS, 2)
    coordinator.add_partitions(COUNTS, 2)
    member = StreamsClient("a")
    member.heartbeat(coordinator)
    coordinator.pass_time(3_000)
    member.heartbeat(coordinator)
    assert len(member.active) == 4


def test_a_topology_that_proves_invalid_during_the_delay_does_not_stop_the_deadlines_of_others() -> None:
    coordinator = streams_coordinator(group_streams_initial_rebalance_delay_ms=3000)
    # Whether the loop can be resolved is checked when the source topic exists.
    loop = Subtopology(
        subtopology_id="1",
        repartition_source_topics=(TopicInfo(name="loop"),),
        repartition_sink_topics=("loop",),
    )
    source = Subtopology(subtopology_id="0", source_topics=("late",))
    invalid = StreamsClient("a", topology=Topology(epoch=0, subtopologies=(source, loop)))
    invalid.heartbeat(coordinator)
    assert invalid.statuses()[-1] == HeartbeatStatus.MISSING_SOURCE_TOPICS
    coordinator.add_partitions("late", 1)
    other = StreamsClient("b", group_id="other")
    other.heartbeat(coordinator)
    create_missing(coordinator, other)
    coordinator.pass_time(3_000)
    other.heartbeat(coordinator)
    assert len(other.active) == 4
    assert rejection(invalid, coordinator, invalid.epoch)[0] is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_assignments_are_at_least_an_interval_apart() -> None:
    coordinator = streams_coordinator(group_streams_assignment_interval_ms=1000)
    first, second = StreamsClient("a"), StreamsClient("b")
    first.heartbeat(coordinator)
    create_missing(coordinator, first)
    coordinator.pass_time(1000)
    first.heartbeat(coordinator)
    second.heartbeat(coordinator)
    assert second.statuses() == [HeartbeatStatus.ASSIGNMENT_DELAYED]
    assert second.active == set()
    coordinator.pass_time(1000)
    second.heartbeat(coordinator)
    assert second.statuses() == []
    first.heartbeat(coordinator)
    first.heartbeat(coordinator)
    second.heartbeat(coordinator)
    assert len(first.active) == len(second.active) == 2


def test_a_full_group_rejects_members(coordinator: GroupCoordinatorFixture) -> None:
    for name in "ab":
        StreamsClient(name).heartbeat(coordinator)
    code, text = rejection(StreamsClient("c"), coordinator, 0)
    assert code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert text == "The streams group has reached its maximum capacity of 2 members."


def test_a_group_of_another_type_is_not_a_streams_group(coordinator: GroupCoordinatorFixture) -> None:
    coordinator.join_as_new_member("g")
    code, text = rejection(StreamsClient("a"), coordinator, 0)
    assert (code, text) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a streams group.")
    code, text = rejection(StreamsClient("a", group_id="other"), coordinator, 5)
    assert (code, text) == (ErrorCode.GROUP_ID_NOT_FOUND, "Streams group other not found.")


def test_an_empty_classic_group_becomes_a_streams_group_and_back(
    coordinator: GroupCoordinatorFixture,
) -> None:
    coordinator.commit({("lines", 0): 5})
    assert coordinator.coordinator._groups.get("g") is not None
    member = StreamsClient("a")
    member.join_with_topics(coordinator)
    assert coordinator.coordinator._groups.get("g") is None
    assert coordinator.join("g", member_id="").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member.leave(coordinator)
    coordinator.join_as_new_member("g")
    assert coordinator.coordinator._groups.streams.find("g") is None
    assert coordinator.reload().coordinator._groups.streams.find("g") is None


# Owned tasks


def test_a_member_must_not_own_tasks_that_do_not_exist(coordinator: GroupCoordinatorFixture) -> None:
    member = StreamsClient("a")
    member.join_with_topics(coordinator)
    member.active.add(("0", 2))
    code, text = rejection(member, coordinator, member.epoch)
    assert code is ErrorCode.INVALID_REQUEST
    assert text == "Task 2 for subtopology 0 is invalid. Number of tasks for this subtopology: 2"
    member.active = {("5", 0)}
    assert rejection(member, coordinator, member.epoch)[1] == "Subtopology 5 does not exist in the topology."


# Topologies


def test_a_member_with_an_older_topology_gets_a_status_and_a_newer_one_is_rejected(
    coordinator: GroupCoordinatorFixture,
) -> None:
    StreamsClient("a", topology=replace(WORD_COUNT, epoch=2)).heartbeat(coordinator)
    older = StreamsClient("b", topology=replace(WORD_COUNT, epoch=1))
    response = older.heartbeat(coordinator)
    assert older.statuses()[0] == HeartbeatStatus.STALE_TOPOLOGY
    assert response.status is not None
    assert response.status[0].status_detail == (
        "The member's topology epoch 1 is behind the group's topology epoch 2."
    )
    newer = StreamsClient("b", topology=replace(WORD_COUNT, epoch=3))
    older.leave(coordinator)
    assert rejection(newer, coordinator, 0) == (
        ErrorCode.INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )


def test_added_partitions_are_a_problem_until_the_changelog_topic_has_them(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = StreamsClient("a")
    member.join_with_topics(coordinator)
    coordinator.add_partitions(WORDS, 1)
    member.heartbeat(coordinator)
    assert member.statuses() == [HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS]
    assert member.active == set(), "a group that is not ready has no tasks"
    assert streams_group(coordinator).state is StreamsGroupState.NOT_READY
    coordinator.add_partitions(COUNTS, 1)
    for _ in range(2):
        member.heartbeat(coordinator)
    assert member.active == {("0", 0), ("0", 1), ("1", 0), ("1", 1), ("1", 2)}


# Rebalances


def test_a_task_moves_only_after_its_member_has_revoked_it(coordinator: GroupCoordinatorFixture) -> None:
    first, second = StreamsClient("a"), StreamsClient("b")
    first.join_with_topics(coordinator)
    second.heartbeat(coordinator)
    assert second.active == set()
    assert streams_group(coordinator).members["b"].state is MemberState.UNRELEASED_TASKS
    first.heartbeat(coordinator, revokes=False)
    assert streams_group(coordinator).members["a"].state is MemberState.UNREVOKED_TASKS
    second.heartbeat(coordinator)
    assert second.active == set(), "the first member still runs its tasks"
    first.heartbeat(coordinator)
    first.heartbeat(coordinator)
    second.heartbeat(coordinator)
    assert len(first.active) == len(second.active) == 2
    assert first.epoch == second.epoch
    assert streams_group(coordinator).state is StreamsGroupState.STABLE


def test_a_member_that_does_not_revoke_in_time_is_removed(coordinator: GroupCoordinatorFixture) -> None:
    first, second = StreamsClient("a"), StreamsClient("b")
    first.join_with_topics(coordinator)
    second.heartbeat(coordinator)
    first.heartbeat(coordinator, revokes=False)
    for _ in range(4):
        coordinator.pass_time(15_000)
        if "a" in streams_group(coordinator).members:
            first.heartbeat(coordinator, revokes=False)
        second.heartbeat(coordinator)
    second.heartbeat(coordinator)
    assert rejection(first, coordinator, first.epoch)[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(second.active) == 4


def test_a_standby_task_runs_in_another_process_and_takes_over(coordinator: GroupCoordinatorFixture) -> None:
    set_standby_replicas(coordinator, 1)
    first, second = StreamsClient("a"), StreamsClient("b")
    first.join_with_topics(coordinator)
    for _ in range(3):
        second.heartbeat(coordinator)
        first.heartbeat(coordinator)
    assert first.standby == {task for task in second.active if task[0] == "1"}
    assert second.standby == {task for task in first.active if task[0] == "1"}
    first.leave(coordinator)
    second.heartbeat(coordinator)
    assert second.standby == set(), "its process gives up the standby task before it runs the active one"
    for _ in range(2):
        second.heartbeat(coordinator)
    assert len(second.active) == 4


def test_a_changed_number_of_standby_replicas_starts_a_rebalance(
    coordinator: GroupCoordinatorFixture,
) -> None:
    members = [StreamsClient("a"), StreamsClient("b")]
    members[0].join_with_topics(coordinator)
    for _ in range(2):
        for member in reversed(members):
            member.heartbeat(coordinator)
    assert not any(member.standby for member in members)
    set_standby_replicas(coordinator, 5)
    for _ in range(3):
        for member in members:
            member.heartbeat(coordinator)
    assert all(len(member.standby) == 1 for member in members)
    assert streams_group(coordinator).assignment_configs == {"num.standby.replicas": "2"}, (
        "the limit of brokers"
    )


def test_the_tasks_of_a_lost_response_are_repeated(coordinator: GroupCoordinatorFixture) -> None:
    member = StreamsClient("a")
    member.heartbeat(coordinator)
    create_missing(coordinator, member)
    member.heartbeat(coordinator, loses_response=True)
    assert (member.epoch, member.active) == (2, set())
    member.heartbeat(coordinator)
    assert (member.epoch, len(member.active)) == (3, 4)
    member.heartbeat(coordinator)
    assert member.response.active_tasks is None


def test_unknown_epochs_are_fenced(coordinator: GroupCoordinatorFixture) -> None:
    member = StreamsClient("a")
    member.join_with_topics(coordinator)
    code, text = rejection(member, coordinator, 9)
    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert text == (
        "The streams group member has a greater member epoch (9) than the one known by the group coordinator "
        "(3). The member must abandon all its partitions and rejoin."
    )
    assert "smaller member epoch (1)" in rejection(member, coordinator, 1)[1]


def test_a_member_without_heartbeats_is_removed_after_its_session(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second = StreamsClient("a"), StreamsClient("b")
    first.join_with_topics(coordinator)
    second.heartbeat(coordinator)
    coordinator.pass_time(SESSION_MS - 1)
    second.heartbeat(coordinator)
    coordinator.pass_time(1)
    assert streams_group(coordinator).members.keys() == {"b"}
    second.heartbeat(coordinator)
    assert len(second.active) == 4


def test_an_unknown_state_of_a_later_version_fences_the_member(coordinator: GroupCoordinatorFixture) -> None:
    member = StreamsClient("a")
    member.join_with_topics(coordinator)
    group = streams_group(coordinator)
    group.update_member(replace(group.members["a"], state=MemberState(9), member_epoch=2))
    code, text = rejection(member, coordinator, 2)
    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert "is in a unknown state" in text


# Shutdown and endpoints


def test_a_shutdown_is_reported_to_all_members_until_the_group_is_empty(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second = StreamsClient("a"), StreamsClient("b")
    first.join_with_topics(coordinator)
    second.heartbeat(coordinator)
    first.heartbeat(coordinator, shuts_down=True)
    second.heartbeat(coordinator)
    assert HeartbeatStatus.SHUTDOWN_APPLICATION in second.statuses()
    assert second.response.status is not None
    assert second.response.status[-1].status_detail == (
        "Streams group member a encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    first.leave(coordinator)
    second.leave(coordinator)
    first.heartbeat(coordinator)
    assert HeartbeatStatus.SHUTDOWN_APPLICATION not in first.statuses()


def test_members_learn_the_partitions_of_all_endpoints(coordinator: GroupCoordinatorFixture) -> None:
    first = StreamsClient("a", endpoint=("left", 1))
    second = StreamsClient("b", endpoint=("right", 2))
    first.join_with_topics(coordinator)
    second.heartbeat(coordinator)
    for _ in range(3):
        first.heartbeat(coordinator)
        second.heartbeat(coordinator)
    first.endpoint_epoch = -1
    response = first.heartbeat(coordinator)
    assert response.partitions_by_user_endpoint is not None
    partitions = {
        (each.user_endpoint.host, topic.topic, index)
        for each in response.partitions_by_user_endpoint
        for topic in each.active_partitions
        for index in topic.partitions
    }
    names = {"0": "lines", "1": WORDS}
    assert partitions == {("left", names[each], index) for each, index in first.active} | {
        ("right", names[each], index) for each, index in second.active
    }
    assert first.heartbeat(coordinator).partitions_by_user_endpoint is None, "nothing has changed"


def test_an_endpoint_without_tasks_is_reported_while_topics_are_missing() -> None:
    coordinator = GroupCoordinatorFixture(streams_config=STREAMS_CONFIG)
    response = StreamsClient("a", endpoint=("left", 1)).heartbeat(coordinator)
    assert response.partitions_by_user_endpoint is not None
    assert response.partitions_by_user_endpoint[0].active_partitions == ()
