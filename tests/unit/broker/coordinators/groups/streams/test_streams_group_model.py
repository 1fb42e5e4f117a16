"""Random members of a streams group against the coordinator on virtual time.

Members join, leave, crash, revoke slowly and lose responses; several members belong to one process; topics
get partitions, standby replicas are configured, and the coordinator moves. Target assignments are computed at
once, or in steps that end later.

Invariants after every step
- no task is active in two members that belong to the group;
- a process has a task in one role only.
At the end the group becomes stable, and every task is active in one member.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.configs import streams_group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.streams_members import (
    StreamsClient,
    Task,
    create_missing,
    streams_group,
)
from tidelog.broker.coordinators.groups.streams import target_assignment
from tidelog.broker.coordinators.groups.streams.group import StreamsGroupState
from tidelog.protocol.errors import ErrorCode, KafkaError

ROUNDS_TO_STABLE = 60
MEMBERS_MAX = 5
indexes = st.integers(0, 20)


class StreamsGroupMachine(RuleBasedStateMachine):
    """Members that do what Kafka Streams does, at random moments."""

    @initialize(
        assignment_interval_ms=st.sampled_from([0, 1000]),
        initial_delay_ms=st.sampled_from([0, 3000]),
        standby_replicas=st.integers(0, 2),
        is_large=st.booleans(),
    )
    def start(
        self, assignment_interval_ms: int, initial_delay_ms: int, standby_replicas: int, is_large: bool
    ) -> None:
        self.patch = pytest.MonkeyPatch()
        if is_large:
            self.patch.setattr(target_assignment, "ELEMENTS_AT_ONCE_MAX", 0)
        self.standby_replicas = standby_replicas
        self.coordinator = GroupCoordinatorFixture(
            streams_config=streams_group_config(
                group_streams_assignment_interval_ms=assignment_interval_ms,
                group_streams_initial_rebalance_delay_ms=initial_delay_ms,
                group_streams_num_standby_replicas=standby_replicas,
            )
        )
        self.coordinator.holds_computations = True
        self.coordinator.add_partitions("lines", 3)
        self.members: list[StreamsClient] = []
        self.names = 0

    @precondition(lambda self: len(self.members) < MEMBERS_MAX)
    @rule(process=st.integers(0, 3))
    def join(self, process: int) -> None:
        self.names += 1
        self.members.append(StreamsClient(f"m{self.names}", f"p{process}"))
        self.beat(len(self.members) - 1, False, True)

    @precondition(lambda self: self.members)
    @rule(index=indexes, loses_response=st.booleans(), revokes=st.booleans())
    def beat(self, index: int, loses_response: bool, revokes: bool) -> None:
        member = self.members[index % len(self.members)]
        try:
            member.heartbeat(self.coordinator, loses_response=loses_response, revokes=revokes)
        except KafkaError as error:
            assert error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID), error
            return
        create_missing(self.coordinator, member)

    @precondition(lambda self: self.members)
    @rule(index=indexes)
    def leave(self, index: int) -> None:
        member = self.members.pop(index % len(self.members))
        try:
            member.leave(self.coordinator)
        except KafkaError as error:
            assert error.code is ErrorCode.UNKNOWN_MEMBER_ID, error

    @precondition(lambda self: self.members)
    @rule(index=indexes)
    def crash(self, index: int) -> None:
        self.members.pop(index % len(self.members))

    @rule(duration_ms=st.sampled_from([100, 1_000, 5_000, 50_000, 100_000]))
    def wait(self, duration_ms: int) -> None:
        """Let time pass; members whose session expires abandon their tasks, as clients do before that."""
        self.coordinator.pass_time(duration_ms)
        if duration_ms >= 45_000:
            for member in self.members:
                member.active.clear()
                member.standby.clear()

    @rule()
    def complete_computations(self) -> None:
        self.coordinator.complete_computations()

    @rule()
    def move_coordinator(self) -> None:
        self.coordinator = self.coordinator.reload()
        self.coordinator.holds_computations = True

    @rule(count=st.integers(1, 2))
    def replace_topics(self, count: int) -> None:
        """Add partitions to all topics of the application, as its operator must."""
        topics = ("lines", "words", "counts")
        existing = self.coordinator.image.topics_by_name
        if all(topic in existing for topic in topics) and len(existing["lines"].partitions) < 8:
            for topic in topics:
                self.coordinator.add_partitions(topic, count)

    @invariant()
    def no_task_is_active_twice(self) -> None:
        group = self.coordinator.coordinator._groups.streams.find("g")
        if group is None:
            return
        belonging = [member for member in self.members if member.member_id in group.members]
        active: Counter[Task] = Counter(task for member in belonging for task in member.active)
        assert max(active.values(), default=1) == 1, active
        in_process: Counter[tuple[str, Task]] = Counter(
            (member.process_id, task)
            for member in belonging
            for tasks in (member.active, member.standby)
            for task in tasks
        )
        assert max(in_process.values(), default=1) == 1, in_process

    def teardown(self) -> None:
        try:
            if self.members:
                self._become_stable()
        finally:
            self.patch.undo()

    def _become_stable(self) -> None:
        for _ in range(ROUNDS_TO_STABLE):
            for index in range(len(self.members)):
                self.beat(index, False, True)
            self.coordinator.complete_computations()
            self.coordinator.pass_time(1_500)
        group = streams_group(self.coordinator)
        assert group.state is StreamsGroupState.STABLE, group.state
        count = len(self.coordinator.image.topics_by_name["lines"].partitions)
        tasks = {(subtopology, index) for subtopology in "01" for index in range(count)}
        assert Counter(task for member in self.members for task in member.active) == Counter(tasks)
        processes = len({member.process_id for member in self.members})
        replicas = Counter(task for member in self.members for task in member.standby)
        expected = min(self.standby_replicas, processes - 1)
        assert replicas == Counter({("1", index): expected for index in range(count) if expected})


TestStreamsGroup = StreamsGroupMachine.TestCase
TestStreamsGroup.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
