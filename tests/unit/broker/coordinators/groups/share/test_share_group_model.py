"""Random members of a share group against the coordinator on virtual time.

Members join, leave, crash, lose responses and change their subscriptions; topics get partitions or are
created; states are initialized late, fail or lose their result; the coordinator moves. Target assignments are
computed at once, or in steps that end later.

Invariants after every step
- only initialized partitions of subscribed topics are assigned;
- a partition that was initialized remains so, and is initialized only when it exists;
- epochs of the group never decrease, and those of members do not exceed them.
At the end the group becomes stable: every partition of a subscribed topic is assigned, and evenly.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.configs import share_group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.share_members import LEAVE, ShareClient
from tests.support.groups.share_members import initialize as report_results
from tidelog.broker.coordinators.groups.share import target_assignment
from tidelog.broker.coordinators.groups.share.group import ShareGroup, ShareGroupState
from tidelog.broker.coordinators.share.persister import InitialState
from tidelog.protocol.errors import ErrorCode, KafkaError

SUBSCRIPTIONS = [("t",), ("u",), ("t", "u"), ("t", "later")]
ROUNDS_TO_STABLE = 60
MEMBERS_MAX = 6
indexes = st.integers(0, 20)


class ShareGroupMachine(RuleBasedStateMachine):
    """Members that do what share consumers do, at random moments."""

    @initialize(assignment_interval_ms=st.sampled_from([0, 1000]), is_large=st.booleans())
    def start(self, assignment_interval_ms: int, is_large: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        if is_large:
            self.patch.setattr(target_assignment, "ELEMENTS_AT_ONCE_MAX", 0)
        self.coordinator = GroupCoordinatorFixture(
            share_config=share_group_config(group_share_assignment_interval_ms=assignment_interval_ms)
        )
        self.coordinator.holds_computations = True
        self.coordinator.add_partitions("t", 3)
        self.coordinator.add_partitions("u", 1)
        self.members: list[ShareClient] = []
        self.initializing: list[list[InitialState]] = []
        self.initialized: set[tuple[UUID, int]] = set()
        self.last_epoch = 0
        self.names = 0

    # Members

    @precondition(lambda self: len(self.members) < MEMBERS_MAX)
    @rule(topics=st.sampled_from(SUBSCRIPTIONS))
    def join(self, topics: tuple[str, ...]) -> None:
        self.names += 1
        self.members.append(ShareClient(f"m{self.names}", topics))
        self.heartbeat(len(self.members) - 1, False, False)

    @precondition(lambda self: self.members)
    @rule(index=indexes, loses_response=st.booleans(), is_full=st.booleans())
    def heartbeat(self, index: int, loses_response: bool, is_full: bool) -> None:
        member = self.members[index % len(self.members)]
        try:
            member.heartbeat(self.coordinator, loses_response=loses_response, is_full=is_full)
        except KafkaError as error:
            assert error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID), error
            return
        if member.to_initialize:
            self.initializing.append(member.to_initialize)

    @precondition(lambda self: self.members)
    @rule(index=indexes, topics=st.sampled_from(SUBSCRIPTIONS))
    def change_subscription(self, index: int, topics: tuple[str, ...]) -> None:
        self.members[index % len(self.members)].topics = topics
        self.heartbeat(index, False, True)

    @precondition(lambda self: self.members)
    @rule(index=indexes)
    def leave(self, index: int) -> None:
        member = self.members.pop(index % len(self.members))
        try:
            member.heartbeat(self.coordinator, LEAVE)
        except KafkaError as error:
            assert error.code is ErrorCode.UNKNOWN_MEMBER_ID, error

    @precondition(lambda self: self.members)
    @rule(index=indexes)
    def crash(self, index: int) -> None:
        self.members.pop(index % len(self.members))

    # States

    @precondition(lambda self: self.initializing)
    @rule(failures=st.integers(0, 3))
    def end_initialization(self, failures: int) -> None:
        states = self.initializing.pop(0)
        report_results(self.coordinator, states[failures:], states[:failures])

    @precondition(lambda self: self.initializing)
    @rule()
    def lose_results(self) -> None:
        self.initializing.pop(0)

    # The cluster

    @rule(topic=st.sampled_from(["t", "u", "later"]), count=st.integers(1, 2))
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
        self.initializing.clear()

    @rule(duration_ms=st.sampled_from([100, 1_000, 20_000, 50_000]))
    def pass_time(self, duration_ms: int) -> None:
        self.coordinator.pass_time(duration_ms)

    # What holds at all times

    @property
    def group(self) -> ShareGroup | None:
        return self.coordinator.coordinator._groups.shares.find("g")

    @invariant()
    def only_initialized_partitions_of_subscribed_topics_are_assigned(self) -> None:
        group = self.group if hasattr(self, "coordinator") else None
        if group is None:
            return
        initialized = _partitions(group)
        assert self.initialized <= initialized, "an initialized partition was forgotten"
        self.initialized = initialized
        for topic_id, index in initialized:
            assert index in self.coordinator.image.topics_by_id[topic_id].partitions
        for member in group.members.values():
            for topic_id, assigned in member.assigned.items():
                assert (
                    self.coordinator.image.topics_by_id[topic_id].name in member.subscribed_topic_names.as_set
                )
                assert initialized.issuperset((topic_id, index) for index in assigned)

    @invariant()
    def epochs_never_decrease(self) -> None:
        group = self.group if hasattr(self, "coordinator") else None
        if group is None:
            return
        assert group.epochs.group_epoch >= self.last_epoch
        self.last_epoch = group.epochs.group_epoch
        assert group.epochs.assignment_epoch <= group.epochs.group_epoch
        assert all(member.member_epoch <= group.epochs.group_epoch for member in group.members.values())

    # The end

    def teardown(self) -> None:
        if not getattr(self, "members", None):
            return
        for _ in range(ROUNDS_TO_STABLE):
            self.coordinator.pass_time(3_000)
            for index in range(len(self.members)):
                self.heartbeat(index, False, False)
                self.coordinator.complete_computations()
                while self.initializing:
                    self.end_initialization(0)
        self.patch.undo()
        self._check_stable()

    def _check_stable(self) -> None:
        group = self.group
        assert group is not None and group.state is ShareGroupState.STABLE
        assert set(group.members) == {member.member_id for member in self.members}
        assert group.epochs.assignment_epoch == group.epochs.group_epoch
        assert {member.epoch for member in self.members} == {group.epochs.group_epoch}
        names = {name for member in self.members for name in member.topics}
        existing = self.coordinator.image.topics_by_name
        wanted = {
            (existing[name].id, index)
            for name in names & existing.keys()
            for index in existing[name].partitions
        }
        assigned = Counter(partition for member in self.members for partition in member.assigned)
        assert set(assigned) == wanted
        for name in names & existing.keys():
            subscribers = [member for member in self.members if name in member.topics]
            if len({member.topics for member in self.members}) > 1:
                topic = existing[name].id
                counts = [sum(each == topic for each, _ in member.assigned) for member in subscribers]
            else:
                counts = [len(member.assigned) for member in subscribers]
            assert max(counts) - min(counts) <= 1 and min(counts) > 0, counts


def _partitions(group: ShareGroup) -> set[tuple[UUID, int]]:
    return {
        (topic_id, index)
        for topic_id, topic in group.state_partitions.initialized.items()
        for index in topic.partitions
    }


ShareGroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestShareGroups = ShareGroupMachine.TestCase
