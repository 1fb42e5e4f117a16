"""The group coordinator's shell: loading, leadership, responses after the commit, and log failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.support.configs import group_config
from tests.support.groups.group_service import CONFIG, GROUP, GroupServiceFixture
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.node.wiring.topic_subscribers import CoordinatorRoles
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
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
from tidelog.protocol.messages.sync_group import (
    SyncGroupRequest,
)
from tidelog.protocol.steps import run_steps


@pytest.fixture
async def fixture() -> AsyncIterator[GroupServiceFixture]:
    fixture = await GroupServiceFixture().start_serving(0)
    yield fixture
    await fixture.service.stop()


async def test_a_member_joins_syncs_commits_and_leaves(fixture: GroupServiceFixture) -> None:
    member_id = await fixture.stable_member()
    assert fixture.heartbeat(member_id) is ErrorCode.NONE
    assert await fixture.commit(5, generation=1, member_id=member_id) is ErrorCode.NONE
    assert await fixture.fetch() == (5, ErrorCode.NONE)
    assert fixture.service.group_counts() == {GroupState.STABLE: 1}
    leaving = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=member_id),))
    assert (await fixture.service.leave(leaving, 5)).members[0].error_code == 0
    assert fixture.service.describe_group(GROUP, 6).group_state == "Empty"


async def test_an_expired_session_is_detected_by_the_timer(fixture: GroupServiceFixture) -> None:
    member_id = await fixture.stable_member()
    for _ in range(5):
        fixture.time.pass_time(8_000)
        assert fixture.heartbeat(member_id) is ErrorCode.NONE
    fixture.time.pass_time(10_001)
    assert fixture.service.describe_group(GROUP, 6).group_state == "Empty"


async def test_a_change_of_the_wall_clock_ends_no_session(fixture: GroupServiceFixture) -> None:
    member_id = await fixture.stable_member()
    fixture.time.step_wall_clock(86_400_000)
    fixture.time.pass_time(1_000)
    assert fixture.heartbeat(member_id) is ErrorCode.NONE


async def test_a_restart_keeps_offsets_and_members(fixture: GroupServiceFixture) -> None:
    member_id = await fixture.stable_member()
    await fixture.commit(5, generation=1, member_id=member_id)
    await fixture.service.stop()
    again = await GroupServiceFixture(fixture.log).start_serving(0)
    assert await again.fetch() == (5, ErrorCode.NONE)
    assert again.heartbeat(member_id) is ErrorCode.NONE
    assert (await again.sync(member_id, 1)).assignment == b"all"
    await again.service.stop()


async def test_requests_for_a_group_of_another_coordinator_are_refused(fixture: GroupServiceFixture) -> None:
    assert fixture.service.partition_for(GROUP) == 0
    assert fixture.service.partition_for("a") == 1
    expected = ErrorCode.NOT_COORDINATOR
    assert await fixture.commit(5, group_id="a") is expected
    assert await fixture.fetch("a") == (-1, expected)
    assert (await fixture.join(group_id="a")).error_code == expected
    assert (await fixture.service.sync(SyncGroupRequest(group_id="a"))).error_code == expected
    assert fixture.heartbeat("m", group_id="a") is expected
    assert fixture.service.describe_group("a", 6).error_code == expected
    assert (await fixture.service.delete_groups(("a",)))[0].error_code == expected


@pytest.mark.parametrize(
    ("append_error", "expected"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_kafka_15784_a_commit_that_is_not_appended_changes_nothing(
    fixture: GroupServiceFixture, append_error: ErrorCode, expected: ErrorCode
) -> None:
    fixture.log.append_error = append_error
    assert await fixture.commit(5) is expected
    assert await fixture.fetch() == (-1, ErrorCode.NONE)
    fixture.log.append_error = None
    assert await fixture.commit(6) is ErrorCode.NONE


async def test_a_commit_is_acknowledged_and_visible_when_its_record_is_committed(
    fixture: GroupServiceFixture,
) -> None:
    fixture.log.holds_commits = True
    commit = asyncio.ensure_future(fixture.commit(5))
    await fixture.settle()
    assert not commit.done()
    assert await fixture.fetch() == (-1, ErrorCode.NONE)
    fixture.log.commit_all()
    assert await commit is ErrorCode.NONE
    assert await fixture.fetch() == (5, ErrorCode.NONE)


async def test_a_slow_commit_is_refused_but_applied_when_its_record_is_committed(
    fixture: GroupServiceFixture,
) -> None:
    fixture.log.holds_commits = True
    commit = asyncio.ensure_future(fixture.commit(5))
    await fixture.settle()
    fixture.time.pass_time(CONFIG.offsets_commit_timeout_ms)
    assert await commit is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await fixture.fetch() == (-1, ErrorCode.NONE)
    fixture.log.commit_all()
    await fixture.settle()
    assert await fixture.fetch() == (5, ErrorCode.NONE)


async def test_a_fetch_with_require_stable_waits_for_pending_commits(fixture: GroupServiceFixture) -> None:
    fixture.log.holds_commits = True
    commit = asyncio.ensure_future(fixture.commit(5))
    await fixture.settle()
    fetch = asyncio.ensure_future(fixture.fetch(require_stable=True))
    await fixture.settle()
    assert not fetch.done()
    fixture.log.commit_all()
    assert await fetch == (5, ErrorCode.NONE)
    assert await commit is ErrorCode.NONE


async def test_a_fetch_with_require_stable_waits_at_most_the_commit_timeout(
    fixture: GroupServiceFixture,
) -> None:
    fixture.log.holds_commits = True
    commit = asyncio.ensure_future(fixture.commit(5))
    await fixture.settle()
    assert await fixture.fetch(require_stable=True) == (-1, ErrorCode.NOT_COORDINATOR)
    fixture.time.pass_time(CONFIG.offsets_commit_timeout_ms)
    assert await commit is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_kafka_15784_an_append_that_fails_after_its_replay_reloads_the_partition(
    fixture: GroupServiceFixture,
) -> None:
    member_id = await fixture.stable_member()
    fixture.log.holds_commits = True
    commit = asyncio.ensure_future(fixture.commit(5, generation=1, member_id=member_id))
    await fixture.settle()
    lost = fixture.log.batches[0].pop()
    fixture.log.fail_commits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert lost
    assert await commit is ErrorCode.COORDINATOR_NOT_AVAILABLE
    fixture.log.holds_commits = False
    await fixture.settle()
    assert await fixture.fetch() == (-1, ErrorCode.NONE)
    assert await fixture.commit(6, generation=1, member_id=member_id) is ErrorCode.NONE


async def test_pending_commits_and_stable_fetches_fail_when_the_partition_moves(
    fixture: GroupServiceFixture,
) -> None:
    fixture.log.holds_commits = True
    commit = asyncio.ensure_future(fixture.commit(5))
    await fixture.settle()
    fetch = asyncio.ensure_future(fixture.fetch(require_stable=True))
    await fixture.settle()
    fixture.service.on_resignation(0)
    assert await commit is ErrorCode.NOT_COORDINATOR
    assert await fetch == (-1, ErrorCode.NOT_COORDINATOR)
    fixture.log.commit_all()
    await fixture.settle()


async def test_an_assignment_that_is_not_appended_starts_a_rebalance(fixture: GroupServiceFixture) -> None:
    joined = fixture.join()
    fixture.time.pass_time(3_000)
    member_id = (await joined).member_id
    fixture.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await fixture.sync(member_id, 1)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    fixture.log.append_error = None
    again = await fixture.join(member_id)
    assert (again.error_code, again.generation_id) == (0, 2)


async def test_a_disconnected_client_does_not_affect_others(fixture: GroupServiceFixture) -> None:
    disconnected, remaining = fixture.join(), fixture.join()
    task = asyncio.ensure_future(disconnected)
    task.cancel()
    fixture.time.pass_time(6_000)
    assert (await remaining).error_code == 0


async def test_offsets_expire_by_the_timer_in_bounded_batches() -> None:
    fixture = await GroupServiceFixture(config=group_config(offsets_retention_minutes=1)).start_serving(0)
    for start in range(0, 1_200, 400):
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
            for index in range(start, start + 400)
        )
        topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
        await fixture.send_commit(OffsetCommitRequest(group_id=GROUP, topics=(topic,)))
    assert len(fixture.log.batches[0]) == 3
    fixture.time.pass_time(600_000)
    await fixture.settle()
    assert len(fixture.log.batches[0]) == 3 + 3
    assert run_steps(fixture.service.list_groups((), ())) == []
    assert await fixture.fetch() == (-1, ErrorCode.NONE)
    await fixture.service.stop()


async def test_offsets_are_deleted_on_request_and_with_their_topic(fixture: GroupServiceFixture) -> None:
    await fixture.commit(5)
    partition = OffsetDeleteRequestPartition(partition_index=0)
    request = OffsetDeleteRequest(
        group_id=GROUP, topics=(OffsetDeleteRequestTopic(name="t", partitions=(partition,)),)
    )
    response = await fixture.service.delete_offsets(request)
    assert response.topics[0].partitions[0].error_code == 0
    assert await fixture.fetch() == (-1, ErrorCode.NONE)
    await fixture.commit(6)
    fixture.service.on_topics_deleted({"t": UUID(int=1)})
    assert await fixture.fetch() == (-1, ErrorCode.NONE)


async def test_a_deleted_group_stays_deleted_after_a_reload(fixture: GroupServiceFixture) -> None:
    await fixture.commit(5)
    assert (await fixture.service.delete_groups((GROUP,)))[0].error_code == 0
    again = await GroupServiceFixture(fixture.log).start_serving(0)
    assert run_steps(again.service.list_groups((), ())) == []
    await again.service.stop()


async def test_redpanda_9571_a_leader_with_fetching_followers_may_have_a_successor() -> None:
    """Its heartbeats were late, so the controller elected another leader; followers do not know it yet."""
    fixture = await GroupServiceFixture().start_serving(0, 1, 2)
    assert await fixture.commit(7) is ErrorCode.NONE
    fixture.log.is_succeeded = True
    assert await fixture.fetch() == (-1, ErrorCode.NOT_COORDINATOR)
    fixture.log.is_succeeded = False
    assert await fixture.fetch() == (7, ErrorCode.NONE)


async def test_a_coordinator_with_a_possible_successor_serves_nothing_from_memory() -> None:
    fixture = await GroupServiceFixture().start_serving(0, 1, 2)
    assert await fixture.commit(7) is ErrorCode.NONE
    member = await fixture.stable_member()
    fixture.log.is_cut_off = True
    assert await fixture.fetch() == (-1, ErrorCode.NOT_COORDINATOR)
    assert await fixture.commit(8) is ErrorCode.NOT_COORDINATOR
    assert fixture.heartbeat(member) is ErrorCode.NOT_COORDINATOR
    fixture.log.is_cut_off = False
    assert await fixture.fetch() == (7, ErrorCode.NONE)
    assert fixture.heartbeat(member) is ErrorCode.NONE


async def test_a_coordinator_with_a_failed_disk_returns_not_coordinator(fixture: GroupServiceFixture) -> None:
    """The log is lost before the controller has moved the leadership; other errors are fatal for clients."""
    assert await fixture.commit(7) is ErrorCode.NONE
    member = await fixture.stable_member()
    fixture.log.lost = ErrorCode.KAFKA_STORAGE_ERROR
    assert await fixture.commit(8, generation=1, member_id=member) is ErrorCode.NOT_COORDINATOR
    assert await fixture.fetch() == (-1, ErrorCode.NOT_COORDINATOR)
    assert await fixture.fetch(require_stable=True) == (-1, ErrorCode.NOT_COORDINATOR)
    assert (await fixture.join(member)).error_code == ErrorCode.NOT_COORDINATOR
    assert (await fixture.sync(member, 1)).error_code == ErrorCode.NOT_COORDINATOR
    assert fixture.heartbeat(member) is ErrorCode.NOT_COORDINATOR
    assert fixture.service.describe_group(GROUP, 6).error_code == ErrorCode.NOT_COORDINATOR
    assert (await fixture.service.delete_groups((GROUP,)))[0].error_code == ErrorCode.NOT_COORDINATOR
    leaving = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=member),))
    with pytest.raises(KafkaError) as refusal:
        await fixture.service.leave(leaving, 5)
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR


async def test_a_disk_failure_completes_waiting_joins_at_once(fixture: GroupServiceFixture) -> None:
    waiting = fixture.join()
    lost = RoleChanges(removed=[TopicPartition(GROUP_METADATA_TOPIC, 0), TopicPartition("t", 1)])
    roles = CoordinatorRoles({GROUP_METADATA_TOPIC: fixture.service})
    roles.on_roles_changed(lost, MetadataImage(cluster_id="c"))
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert await fixture.fetch() == (-1, ErrorCode.NOT_COORDINATOR)


async def test_a_new_member_that_disconnects_during_its_join_is_removed() -> None:
    """Before, its metadata stayed in memory until its session ended."""
    fixture = await GroupServiceFixture().start_serving(0)
    disconnected, remaining = asyncio.ensure_future(fixture.join()), asyncio.ensure_future(fixture.join())
    await fixture.settle()
    memory = fixture.service.member_memory
    before_bytes = memory.used_bytes
    disconnected.cancel()
    await fixture.settle()
    assert memory.used_bytes == before_bytes // 2
    fixture.time.pass_time(10_000)
    await fixture.settle()
    joined = remaining.result()
    assert (joined.error_code, len(joined.members)) == (0, 1)


async def test_an_existing_member_that_disconnects_during_a_rejoin_keeps_its_place() -> None:
    fixture = await GroupServiceFixture().start_serving(0)
    first = asyncio.ensure_future(fixture.join())
    fixture.time.pass_time(10_000)
    await fixture.settle()
    member_id = first.result().member_id
    newcomer = asyncio.ensure_future(fixture.join())
    again = asyncio.ensure_future(fixture.join(member_id, version=9))
    await fixture.settle()
    third = asyncio.ensure_future(fixture.join())
    rejoined = asyncio.ensure_future(fixture.join(member_id, version=9))
    await fixture.settle()
    rejoined.cancel()
    await fixture.settle()
    assert member_id in {member.member_id for member in fixture.service.describe_group(GROUP, 5).members}
    for task in (newcomer, again, third):
        task.cancel()
