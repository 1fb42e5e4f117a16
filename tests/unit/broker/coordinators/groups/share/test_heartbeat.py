"""ShareGroupHeartbeat: epochs, fencing, initialization of states, assignments, sessions, reloads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.configs import share_group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.share_members import ShareClient, initialize
from tidelog.broker.coordinators.groups.share.group import ShareGroup, ShareGroupState
from tidelog.cluster.image import ResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tidelog.protocol.steps import run_steps

CONFIG = share_group_config(group_share_assignment_interval_ms=0, group_share_max_size=2)
SESSION_MS = 45_000
RETRY_MS = CONFIG.group_share_initialize_retry_interval_ms


@pytest.fixture
def coordinator() -> GroupCoordinatorFixture:
    """Return a coordinator that assigns at once, with the topics t (4 partitions) and u (1)."""
    fixture = GroupCoordinatorFixture(share_config=CONFIG)
    fixture.add_partitions("t", 4)
    fixture.add_partitions("u", 1)
    return fixture


def group_of(coordinator: GroupCoordinatorFixture) -> ShareGroup:
    group = coordinator.coordinator._groups.shares.find("g")
    assert group is not None
    return group


def rejection(member: ShareClient, coordinator: GroupCoordinatorFixture, epoch: int) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        member.heartbeat(coordinator, epoch)
    return error.value.code


def test_a_partition_is_assigned_only_when_its_state_is_initialized(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = ShareClient("a")
    member.heartbeat(coordinator)
    assert (member.epoch, member.partitions, len(member.to_initialize)) == (2, [], 4)
    assert {state.state_epoch for state in member.to_initialize} == {2}
    states = member.to_initialize
    member.heartbeat(coordinator)
    assert member.to_initialize == [], "the initialization is in progress"
    initialize(coordinator, states[:3], failed=states[3:])
    member.heartbeat(coordinator)
    assert (member.epoch, member.partitions) == (3, [0, 1, 2])
    assert [state.share_partition.partition for state in member.to_initialize] == [3], "the failed one"


def test_an_initialization_without_a_result_is_repeated(coordinator: GroupCoordinatorFixture) -> None:
    member = ShareClient("a")
    member.heartbeat(coordinator)
    coordinator.now_ms += RETRY_MS - 1
    member.heartbeat(coordinator)
    assert member.to_initialize == []
    coordinator.now_ms += 1
    member.heartbeat(coordinator)
    assert len(member.to_initialize) == 4


def test_members_share_the_partitions_and_get_them_at_once(coordinator: GroupCoordinatorFixture) -> None:
    first, second = ShareClient("a"), ShareClient("b")
    first.join_and_initialize(coordinator)
    assert first.partitions == [0, 1, 2, 3]
    second.heartbeat(coordinator)
    assert len(second.partitions) == 2, "no other member must revoke them first"
    first.heartbeat(coordinator)
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3]
    assert first.epoch == second.epoch == 4
    assert rejection(ShareClient("c"), coordinator, 0) is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(("pause_ms", "epochs"), [(900, 1), (1_100, 2)])
def test_partitions_initialized_while_an_assignment_is_delayed_need_no_epoch_of_their_own(
    pause_ms: int, epochs: int
) -> None:
    coordinator = GroupCoordinatorFixture(
        share_config=share_group_config(group_share_assignment_interval_ms=1_000)
    )
    coordinator.add_partitions("t", 4)
    coordinator.add_partitions("u", 1)
    first, second = ShareClient("a"), ShareClient("b", ("u",))
    first.heartbeat(coordinator)
    first.heartbeat(coordinator, -1)
    before = group_of(coordinator).epochs.group_epoch
    coordinator.pass_time(pause_ms)
    second.heartbeat(coordinator)
    initialize(coordinator, second.to_initialize)
    for _ in range(4):
        coordinator.pass_time(500)
        second.heartbeat(coordinator)
    assert second.partitions == [0]
    assert group_of(coordinator).epochs.group_epoch == before + epochs


def test_only_the_current_and_the_previous_epoch_are_accepted(coordinator: GroupCoordinatorFixture) -> None:
    member = ShareClient("a")
    member.join_and_initialize(coordinator)
    assert member.heartbeat(coordinator, 2).member_epoch == 3
    assert rejection(member, coordinator, 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert rejection(member, coordinator, 4) is ErrorCode.FENCED_MEMBER_EPOCH
    assert rejection(ShareClient("b"), coordinator, 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert rejection(member, coordinator, -2) is ErrorCode.INVALID_REQUEST


def test_new_partitions_are_initialized_and_assigned(coordinator: GroupCoordinatorFixture) -> None:
    member = ShareClient("a")
    member.join_and_initialize(coordinator)
    coordinator.add_partitions("t", 1)
    member.heartbeat(coordinator)
    assert [state.share_partition.partition for state in member.to_initialize] == [4]
    initialize(coordinator, member.to_initialize)
    member.heartbeat(coordinator)
    assert member.partitions == [0, 1, 2, 3, 4]


def test_a_member_that_leaves_or_whose_session_expires_is_removed(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second = ShareClient("a"), ShareClient("b")
    first.join_and_initialize(coordinator)
    second.heartbeat(coordinator)
    assert first.heartbeat(coordinator, -1).member_epoch == -1
    second.heartbeat(coordinator)
    assert second.partitions == [0, 1, 2, 3]
    coordinator.pass_time(SESSION_MS + 1)
    assert group_of(coordinator).state is ShareGroupState.EMPTY
    assert rejection(second, coordinator, second.epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_session_timeout_of_the_group_applies(coordinator: GroupCoordinatorFixture) -> None:
    configs = {"share.session.timeout.ms": "46000", "share.heartbeat.interval.ms": "6000"}
    coordinator.image.configs[ResourceType.GROUP, "g"] = configs  # type: ignore[index]
    member = ShareClient("a")
    assert member.heartbeat(coordinator).heartbeat_interval_ms == 6_000
    coordinator.pass_time(SESSION_MS + 1)
    member.heartbeat(coordinator)
    coordinator.pass_time(46_000)
    assert group_of(coordinator).is_empty


def test_a_new_coordinator_has_the_same_group(coordinator: GroupCoordinatorFixture) -> None:
    first, second = ShareClient("a"), ShareClient("b", ("t", "u"))
    first.join_and_initialize(coordinator)
    second.heartbeat(coordinator)
    other = coordinator.reload()
    for name in ("members", "target", "state_partitions"):
        assert getattr(group_of(other), name) == getattr(group_of(coordinator), name)
    for name in ("group_epoch", "metadata_hash", "assignment_epoch", "assignment_wall_ms"):
        assert getattr(group_of(other).epochs, name) == getattr(group_of(coordinator).epochs, name)
    description = run_steps(other.coordinator.shares.describe("g"))
    assert description == run_steps(coordinator.coordinator.shares.describe("g"))
    second.heartbeat(other)
    assert len(second.to_initialize) == 1, "the initialization of u may have been lost with its coordinator"
    other.pass_time(SESSION_MS + 1)
    assert group_of(other).is_empty


def test_a_group_has_one_type(coordinator: GroupCoordinatorFixture) -> None:
    coordinator.stable_group(1)
    assert rejection(ShareClient("a"), coordinator, 0) is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_of_other_protocols_cannot_join_a_share_group(coordinator: GroupCoordinatorFixture) -> None:
    ShareClient("a").heartbeat(coordinator)
    assert coordinator.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    with pytest.raises(KafkaError) as error:
        coordinator.coordinator.offset_fetch.check_sender(OffsetFetchRequestGroup(group_id="g"))
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND


class UnreadTargets(dict[str, Any]):
    """Targets of which each member may read its own."""

    def values(self) -> Any:
        raise AssertionError("a heartbeat passes over the targets of all members")


def test_a_steady_heartbeat_does_not_pass_over_the_targets_of_all_members(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = ShareClient("a")
    member.join_and_initialize(coordinator)
    member.heartbeat(coordinator)
    group = group_of(coordinator)
    group.target = UnreadTargets(group.target)
    member.heartbeat(coordinator)
    group.set_state_partitions(group.state_partitions)
    with pytest.raises(AssertionError, match="all members"):
        member.heartbeat(coordinator)
