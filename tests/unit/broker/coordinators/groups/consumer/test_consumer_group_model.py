"""Random members of both protocols against the coordinator on virtual time.

Members join, leave, crash, revoke slowly, lose responses, change their subscriptions and commit; topics get
partitions; the coordinator moves; the group changes between the two types. Target assignments are computed
at once, or in steps that end later.

Invariants after every step
- no partition is owned by two members that belong to the group;
- committed offsets never move back.
At the end the group becomes stable, and every partition of a subscribed topic is owned by one member.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.configs import consumer_group_config, group_config
from tests.support.groups.classic_members import ClassicClient
from tests.support.groups.consumer_members import LEAVE_FOR_A_WHILE, MemberClient, PartitionId
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.consumer import target_assignment
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroupState
from tidelog.protocol.errors import ErrorCode, KafkaError

TOPICS = ("t", "u", "tt")
SUBSCRIPTIONS: list[tuple[tuple[str, ...] | None, str | None]] = [
    (("t",), ""),
    (("t", "u"), ""),
    ((), "t+"),
    (("u",), "t.*"),
    ((), "u|t"),
]
ROUNDS_TO_STABLE = 60
MEMBERS_MAX = 5
indexes = st.integers(0, 20)


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Members that do what clients do, at random moments."""

    @initialize(assignment_interval_ms=st.sampled_from([0, 1000]), is_large=st.booleans())
    def start(self, assignment_interval_ms: int, is_large: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        if is_large:
            self.patch.setattr(target_assignment, "ELEMENTS_AT_ONCE_MAX", 0)
        self.coordinator = GroupCoordinatorFixture(
            config=group_config(group_initial_rebalance_delay_ms=0),
            consumer_config=consumer_group_config(
                group_consumer_assignment_interval_ms=assignment_interval_ms
            ),
        )
        self.coordinator.holds_computations = True
        self.coordinator.add_partitions("t", 3)
        self.members: list[MemberClient] = []
        self.classic: list[ClassicClient] = []
        self.crashed: list[MemberClient] = []
        self.committed: dict[PartitionId, int] = {}
        self.names = 0

    # Members of the new protocol

    @precondition(lambda self: len(self.members) + len(self.classic) < MEMBERS_MAX)
    @rule(
        subscription=st.sampled_from(SUBSCRIPTIONS),
        assignor=st.sampled_from([None, "uniform", "range"]),
        is_static=st.booleans(),
    )
    def join(
        self, subscription: tuple[tuple[str, ...] | None, str | None], assignor: str | None, is_static: bool
    ) -> None:
        self.names += 1
        topics, expression = subscription
        instance_id = f"i{self.names}" if is_static else None
        member = MemberClient(f"m{self.names}", topics, expression, instance_id, assignor)
        self.members.append(member)
        self.heartbeat(len(self.members) - 1, False, True)

    @precondition(lambda self: self.members)
    @rule(index=indexes, loses_response=st.booleans(), revokes=st.booleans())
    def heartbeat(self, index: int, loses_response: bool, revokes: bool) -> None:
        member = self.members[index % len(self.members)]
        try:
            member.heartbeat(self.coordinator, loses_response=loses_response, revokes=revokes)
        except KafkaError as error:
            assert error.code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), error
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                member.epoch = 0
                member.owned.clear()

    @precondition(lambda self: self.members)
    @rule(index=indexes, subscription=st.sampled_from(SUBSCRIPTIONS))
    def change_subscription(
        self, index: int, subscription: tuple[tuple[str, ...] | None, str | None]
    ) -> None:
        self.members[index % len(self.members)].subscribe(*subscription)

    @precondition(lambda self: self.members)
    @rule(index=indexes)
    def leave(self, index: int) -> None:
        member = self.members.pop(index % len(self.members))
        try:
            member.leave(self.coordinator)
        except KafkaError as error:
            assert error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND), error

    @precondition(lambda self: any(member.instance_id for member in self.members))
    @rule(index=indexes)
    def restart_static(self, index: int) -> None:
        """Let a static member leave for a while and come back with another member id."""
        static = [member for member in self.members if member.instance_id]
        member = static[index % len(static)]
        try:
            member.leave(self.coordinator, LEAVE_FOR_A_WHILE)
        except KafkaError as error:
            assert error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND), error
        self.names += 1
        member.member_id = f"m{self.names}"
        self.heartbeat(self.members.index(member), False, True)

    @precondition(lambda self: self.members)
    @rule(index=indexes)
    def crash(self, index: int) -> None:
        """Stop a member; it may wake up later and commit, which must be rejected if it was removed."""
        self.crashed.append(self.members.pop(index % len(self.members)))

    # Members of the classic protocol

    @precondition(lambda self: len(self.members) + len(self.classic) < MEMBERS_MAX)
    @rule(is_static=st.booleans())
    def join_classic(self, is_static: bool) -> None:
        self.names += 1
        self.classic.append(ClassicClient(instance_id=f"i{self.names}" if is_static else None))
        self.classic[-1].step(self.coordinator)

    @precondition(lambda self: self.classic)
    @rule(index=indexes)
    def step_classic(self, index: int) -> None:
        self.classic[index % len(self.classic)].step(self.coordinator)

    @precondition(lambda self: self.classic)
    @rule(index=indexes)
    def leave_classic(self, index: int) -> None:
        member = self.classic.pop(index % len(self.classic))
        if member.member_id:
            self.coordinator.leave((member.member_id, None))

    # The cluster

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 2))
    def add_partitions(self, topic: str, count: int) -> None:
        existing = self.coordinator.image.topics_by_name.get(topic)
        if existing is None or len(existing.partitions) < 6:
            self.coordinator.add_partitions(topic, count)

    @rule()
    def complete_computations(self) -> None:
        self.coordinator.complete_computations()

    @rule()
    def move_coordinator(self) -> None:
        self.coordinator = self.coordinator.reload()
        self.coordinator.holds_computations = True
        for member in self.classic:
            # The previous coordinator has failed the requests that waited.
            if member.joining is not None or member.syncing is not None:
                member.abandon()

    @rule(duration_ms=st.sampled_from([100, 1_000, 20_000, 50_000]))
    def pass_time(self, duration_ms: int) -> None:
        self.coordinator.pass_time(duration_ms)

    # Offsets

    @rule(index=indexes)
    def commit(self, index: int) -> None:
        everyone: list[MemberClient | ClassicClient] = [*self.members, *self.crashed, *self.classic]
        owners = [member for member in everyone if member.owned]
        if not owners:
            return
        member = owners[index % len(owners)]
        epoch = member.generation if isinstance(member, ClassicClient) else member.epoch
        for partition in sorted(member.owned):
            name = self.coordinator.image.topics_by_id[partition[0]].name
            # A member continues from the offset that was committed when it got the partition. One that was
            # removed continues from an older offset: its commit must be rejected.
            is_member = self._is_member(member)
            offset = self.committed.get(partition, 0) + (1 if is_member else -1)
            (error,) = self.coordinator.commit(
                {(name, partition[1]): offset}, member_id=member.member_id, generation=epoch
            )
            if error is ErrorCode.NONE:
                assert is_member, f"{member.member_id} does not belong to the group and has committed"
                self.committed[partition] = offset

    def _all_members(self) -> list[MemberClient | ClassicClient]:
        return [*self.members, *self.classic]

    def _is_member(self, member: MemberClient | ClassicClient) -> bool:
        registry = self.coordinator.coordinator._groups
        group = registry.consumers.find("g")
        if group is not None:
            return member.member_id in group.members
        classic = registry.get("g")
        return classic is not None and member.member_id in classic.members

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owners: Counter[PartitionId] = Counter()
        for member in self._all_members():
            if self._is_member(member) and not self._is_behind(member):
                owners.update(member.owned)
        assert all(count == 1 for count in owners.values()), owners

    def _is_behind(self, member: MemberClient | ClassicClient) -> bool:
        """Return whether a member will learn from its next response that it was removed and is new now."""
        registry = self.coordinator.coordinator._groups
        group = registry.consumers.find("g")
        if group is None:
            classic = registry.get("g")
            # A classic member that has not joined the current generation in time is removed from it.
            return classic is not None and isinstance(member, MemberClient)
        if isinstance(member, MemberClient):
            return member.epoch == 0 and member.member_id not in group.members
        return False

    # The end

    def teardown(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        for _ in range(ROUNDS_TO_STABLE):
            self.coordinator.pass_time(3_000)
            for index in range(len(self.members)):
                self.heartbeat(index, False, True)
                self.coordinator.complete_computations()
            for member in self.classic:
                member.step(self.coordinator)
                self.coordinator.complete_computations()
        self.patch.undo()
        self._check_stable()

    def _check_stable(self) -> None:
        registry = self.coordinator.coordinator._groups
        group, classic = registry.consumers.find("g"), registry.get("g")
        owners: Counter[PartitionId] = Counter()
        wanted: set[PartitionId] = set()
        for member in self._all_members():
            owners.update(member.owned)
        if self.members:
            assert group is not None
            assert group.state is ConsumerGroupState.STABLE, (group.state, group.members)
            names = set().union(*group.subscriptions.name_sets())
        else:
            names = {"t"} if self.classic else set()
            assert not self.classic or classic is None or classic.state is GroupState.STABLE, classic
        for topic in self.coordinator.image.topics_by_name.values():
            if topic.name in names:
                wanted.update((topic.id, index) for index in topic.partitions)
        assert set(owners) == wanted
        assert all(count == 1 for count in owners.values())


ConsumerGroupMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestConsumerGroups = ConsumerGroupMachine.TestCase
