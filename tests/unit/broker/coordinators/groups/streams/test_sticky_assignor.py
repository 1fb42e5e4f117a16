"""The assignor of streams groups: balance, stickiness, and standby tasks in other processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.coordinators.groups.streams import sticky_assignor
from tidelog.broker.coordinators.groups.streams.sticky_assignor import MemberSpec, SubtopologySpec
from tidelog.broker.coordinators.groups.streams.tasks import NO_TASKS, Tasks
from tidelog.protocol.steps import run_steps

STATELESS, STATEFUL = False, True


def assign(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologySpec], standby_replicas: int
) -> dict[str, Tasks]:
    return run_steps(sticky_assignor.assign(members, subtopologies, standby_replicas))


def new_members(**processes: str) -> dict[str, MemberSpec]:
    return {member_id: MemberSpec(process_id, NO_TASKS) for member_id, process_id in processes.items()}


def after(members: Mapping[str, MemberSpec], assignment: Mapping[str, Tasks]) -> dict[str, MemberSpec]:
    """Return the members with their assignment as the previous one; new members have none."""
    return {
        member_id: MemberSpec(member.process_id, assignment.get(member_id, NO_TASKS))
        for member_id, member in members.items()
    }


def active(assignment: Mapping[str, Tasks], member_id: str) -> dict[str, list[int]]:
    return {each: sorted(indexes) for each, indexes in assignment[member_id].active.items()}


def task_counts(assignment: Mapping[str, Tasks]) -> list[int]:
    return sorted(sum(map(len, tasks.active.values())) for tasks in assignment.values())


def test_new_members_get_equal_shares_of_the_tasks() -> None:
    topology = {"0": SubtopologySpec(4, STATELESS), "1": SubtopologySpec(4, STATEFUL)}
    assignment = assign(new_members(a="p", b="q"), topology, 0)
    assert task_counts(assignment) == [4, 4]
    assert active(assignment, "a") == {"0": [0, 2], "1": [0, 2]}
    assert active(assignment, "b") == {"0": [1, 3], "1": [1, 3]}


def test_members_of_one_process_count_as_threads_of_equal_capacity() -> None:
    assignment = assign(new_members(a="p", b="p", c="q"), {"0": SubtopologySpec(6, STATELESS)}, 0)
    assert task_counts(assignment) == [2, 2, 2]


def test_a_new_member_takes_only_as_many_tasks_as_balance_requires() -> None:
    topology = {"0": SubtopologySpec(6, STATEFUL)}
    members = new_members(a="p", b="q")
    before = assign(members, topology, 0)
    joined = {**members, **new_members(c="r")}
    assignment = assign(after(joined, before), topology, 0)
    assert task_counts(assignment) == [2, 2, 2]
    for member_id in "ab":
        assert assignment[member_id].active["0"] < before[member_id].active["0"]


def test_a_standby_task_becomes_active_when_its_member_has_left() -> None:
    topology = {"0": SubtopologySpec(2, STATEFUL)}
    members = new_members(a="p", b="q")
    before = assign(members, topology, 1)
    assert before["b"].standby == before["a"].active
    assert before["a"].standby == before["b"].active
    left = assign(after(new_members(b="q"), before), topology, 1)
    assert active(left, "b") == {"0": [0, 1]}
    assert left["b"].standby == {}


def test_a_returned_process_gets_its_tasks_back_as_standby_tasks() -> None:
    topology = {"0": SubtopologySpec(4, STATEFUL)}
    members = new_members(a="p", b="q", c="r")
    before = assign(members, topology, 2)
    for member_id, tasks in before.items():
        assert len(tasks.active.get("0", ())) + len(tasks.standby.get("0", ())) == 4, member_id


def test_stateless_subtopologies_have_no_standby_tasks() -> None:
    assignment = assign(new_members(a="p", b="q"), {"0": SubtopologySpec(2, STATELESS)}, 1)
    assert all(tasks.standby == {} for tasks in assignment.values())


def test_a_standby_task_whose_first_member_runs_it_goes_to_another_member_that_had_it() -> None:
    """KAFKA-20899: the members after the first were compared with the process of the first."""
    topology = {"0": SubtopologySpec(1, STATEFUL)}
    had_it = Tasks(standby={"0": frozenset({0})})
    members = {
        "a": MemberSpec("p", Tasks(active={"0": frozenset({0})})),
        "b": MemberSpec("p", had_it),
        "c": MemberSpec("q", NO_TASKS),
        "d": MemberSpec("r", had_it),
    }
    assignment = assign(members, topology, 1)
    assert assignment["a"].active == {"0": frozenset({0})}
    assert assignment["d"].standby == {"0": frozenset({0})}


def test_without_members_nothing_is_assigned() -> None:
    assert assign({}, {"0": SubtopologySpec(2, STATEFUL)}, 1) == {}


@st.composite
def groups(
    draw: st.DrawFn,
) -> tuple[dict[str, MemberSpec], dict[str, SubtopologySpec], int]:
    topology = {
        str(index): SubtopologySpec(draw(st.integers(1, 6)), draw(st.booleans()))
        for index in range(draw(st.integers(1, 3)))
    }
    replicas = draw(st.integers(0, 2))
    members: dict[str, MemberSpec] = {}
    for index in range(draw(st.integers(1, 6))):
        members[f"m{index}"] = MemberSpec(f"p{draw(st.integers(0, 3))}", NO_TASKS)
    if draw(st.booleans()):
        before = assign(members, topology, replicas)
        for member_id in draw(st.sets(st.sampled_from(sorted(members)), max_size=len(members) - 1)):
            del members[member_id]
        for index in range(draw(st.integers(0, 2))):
            members[f"n{index}"] = MemberSpec(f"p{draw(st.integers(0, 4))}", NO_TASKS)
        members = after(members, before)
    return members, topology, replicas


@given(groups())
def test_every_task_is_active_once_and_a_process_has_it_once(
    group: tuple[dict[str, MemberSpec], dict[str, SubtopologySpec], int],
) -> None:
    members, topology, replicas = group
    assignment = assign(members, topology, replicas)
    assert assignment.keys() == members.keys()
    active_tasks = Counter(
        (each, index)
        for tasks in assignment.values()
        for each, indexes in tasks.active.items()
        for index in indexes
    )
    assert active_tasks == Counter(
        (each, index) for each in topology for index in range(topology[each].task_count)
    )
    processes = {member.process_id for member in members.values()}
    of_process: Counter[tuple[str, str, int]] = Counter()
    standby: Counter[tuple[str, int]] = Counter()
    for member_id, tasks in assignment.items():
        for role in (tasks.active, tasks.standby):
            of_process.update(
                (members[member_id].process_id, each, index)
                for each, indexes in role.items()
                for index in indexes
            )
        standby.update((each, index) for each, indexes in tasks.standby.items() for index in indexes)
    assert set(of_process.values()) <= {1}
    expected = min(replicas, len(processes) - 1)
    for each, spec in topology.items():
        for index in range(spec.task_count):
            assert standby[each, index] == (expected if spec.is_stateful else 0)


@given(groups())
def test_an_unchanged_group_keeps_its_active_tasks(
    group: tuple[dict[str, MemberSpec], dict[str, SubtopologySpec], int],
) -> None:
    members, topology, replicas = group
    first = assign(members, topology, replicas)
    second = assign(after(members, first), topology, replicas)
    third = assign(after(members, second), topology, replicas)
    assert {key: tasks.active for key, tasks in third.items()} == {
        key: tasks.active for key, tasks in second.items()
    }
