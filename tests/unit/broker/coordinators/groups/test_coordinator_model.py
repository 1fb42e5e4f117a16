"""Random clients against the coordinator on virtual time: joins, crashes, commits, failing appends, reloads.

Invariants after every step
- a generation has at most one leader, which must send the assignment;
- in a stable group every member has the assignment of that generation;
- the committed offsets are the last ones that were committed;
- another coordinator that reads the log has the same groups and offsets;
- bookkeeping agrees with itself.
At the end, when time has passed, every request has its response.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.configs import group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture, PendingReply, subscription
from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.member_memory import MEMBER_BYTES, size_of
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.deadlines import DeadlineKey, DeadlineKind
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.join_group import JoinGroupResponse

SESSION_MS = 6_000
REBALANCE_MS = 9_000
CONFIG = group_config(group_max_size=4, offsets_retention_minutes=1)
PROTOCOLS = [
    [("range", subscription("t"))],
    [("range", subscription("t", "u")), ("sticky", subscription("t", "u"))],
    [("sticky", subscription("u")), ("range", subscription("u"))],
]
APPEND_ERRORS = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]
group_ids = st.sampled_from(["g", "h"])


@dataclass
class Client:
    """A consumer: its view of the group, and its pending request."""

    group_id: str
    instance: str | None
    version: int
    protocols: list[tuple[str, bytes]]
    member_id: str = ""
    generation: int = -1
    others: list[str] = field(default_factory=list)
    leads: bool = False
    waiting: PendingReply | None = None
    is_sync: bool = False


class CoordinatorMachine(RuleBasedStateMachine):
    """Clients that act at random times."""

    @initialize(count=st.integers(0, 3), instances=st.booleans())
    def begin(self, count: int, instances: bool) -> None:
        self.fixture = GroupCoordinatorFixture(CONFIG)
        self.clients: list[Client] = []
        self.all_waiting: list[PendingReply] = []
        self.leaders: dict[tuple[Group, int], set[str]] = defaultdict(set)
        self.handed_in: dict[tuple[str, int], list[dict[str, bytes]]] = defaultdict(list)
        self.committed: dict[tuple[str, str, int], int] = {}
        self.held: list[dict[tuple[str, str, int], int]] = []
        self.assignment_count = 0
        for index in range(count):
            self.a_client_starts("g", "ijk"[index] if instances else None, 9, PROTOCOLS[index])
        self.clients_live_on(8, False)

    # -- clients

    @rule(
        group_id=group_ids,
        instance=st.sampled_from([None, None, "i", "j"]),
        version=st.sampled_from([3, 8, 9]),
        protocols=st.sampled_from(PROTOCOLS),
    )
    def a_client_starts(
        self, group_id: str, instance: str | None, version: int, protocols: list[tuple[str, bytes]]
    ) -> None:
        client = Client(group_id, instance, version, protocols)
        self.clients.append(client)
        self.send_join(client)

    def pick(self, choice: int) -> Client:
        return self.clients[choice % len(self.clients)]

    def send_join(self, client: Client) -> None:
        client.waiting = self.fixture.join(
            client.group_id,
            client.member_id,
            instance=client.instance,
            protocols=client.protocols,
            version=client.version,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        client.is_sync = False
        self.all_waiting.append(client.waiting)
        group = self.fixture.coordinator._groups.get(client.group_id)
        if group is not None:
            client.waiting.pending.subscribe(
                lambda assignment_received: self.apply_leadership(group, assignment_received)
            )

    def apply_leadership(self, group: Group, assignment_received: object) -> None:
        assert isinstance(assignment_received, JoinGroupResponse)
        if assignment_received.members and not assignment_received.skip_assignment:
            assert assignment_received.leader == assignment_received.member_id
            self.leaders[group, assignment_received.generation_id].add(assignment_received.member_id)
            assert len(self.leaders[group, assignment_received.generation_id]) == 1

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 9), protocols=st.none() | st.sampled_from(PROTOCOLS))
    def a_client_joins(self, choice: int, protocols: list[tuple[str, bytes]] | None) -> None:
        client = self.pick(choice)
        client.protocols = protocols or client.protocols
        self.send_join(client)

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 9))
    def a_client_reads_its_response_and_continues(self, choice: int) -> None:
        self.continue_request(self.pick(choice))

    def continue_request(self, client: Client) -> None:
        if client.waiting is None or client.waiting.is_waiting:
            return
        response, client.waiting = client.waiting, None
        if response.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.reply.member_id
            self.send_join(client)
        elif response.error is not ErrorCode.NONE:
            client.generation = -1
            if response.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""
        elif not client.is_sync:
            self.apply_response(client, response)
            self.send_sync(client)

    def apply_response(self, client: Client, response: PendingReply) -> None:
        assignment_received = response.reply
        client.member_id, client.generation = assignment_received.member_id, assignment_received.generation_id
        client.others = [member.member_id for member in assignment_received.members]
        client.leads = bool(assignment_received.members) and not assignment_received.skip_assignment

    def send_sync(self, client: Client) -> None:
        assignments = None
        if client.leads:
            self.assignment_count += 1
            assignments = {
                member: f"{client.generation} {member} {self.assignment_count}".encode()
                for member in client.others
            }
            self.handed_in[client.group_id, client.generation].append(assignments)
        client.waiting = self.fixture.sync(
            client.member_id,
            client.generation,
            assignments,
            group_id=client.group_id,
            instance=client.instance,
        )
        client.is_sync = True
        self.all_waiting.append(client.waiting)

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 9))
    def a_client_sends_a_heartbeat(self, choice: int) -> None:
        self.send_heartbeat(self.pick(choice))

    def send_heartbeat(self, client: Client) -> ErrorCode:
        error = self.fixture.heartbeat(
            client.member_id, client.generation, group_id=client.group_id, instance=client.instance
        )
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        return error

    @precondition(lambda self: self.clients and self.fixture.append_error is None)
    @rule(choice=st.integers(0, 9))
    def a_client_leaves(self, choice: int) -> None:
        client = self.pick(choice)
        self.fixture.leave((client.member_id, client.instance), group_id=client.group_id)
        self.clients.remove(client)

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 9))
    def a_client_crashes(self, choice: int) -> None:
        self.clients.remove(self.pick(choice))

    @precondition(lambda self: self.clients)
    @rule(choice=st.integers(0, 9), topic=st.sampled_from("tu"), offset=st.integers(0, 99))
    def a_client_commits(self, choice: int, topic: str, offset: int) -> None:
        client = self.pick(choice)
        self.commit(client.group_id, topic, offset, client.member_id, client.generation, client.instance)

    @rule(group_id=group_ids, topic=st.sampled_from("tu"), offset=st.integers(0, 99))
    def commit_without_member(self, group_id: str, topic: str, offset: int) -> None:
        self.commit(group_id, topic, offset, "", -1, None)

    def commit(
        self, group_id: str, topic: str, offset: int, member_id: str, generation: int, instance: str | None
    ) -> None:
        (error,) = self.fixture.commit(
            {(topic, 0): offset},
            group_id=group_id,
            member_id=member_id,
            generation=generation,
            instance=instance,
        )
        if error is ErrorCode.NONE:
            self.expect_offsets({(group_id, topic, 0): offset})

    def expect_offsets(self, offsets: dict[tuple[str, str, int], int]) -> None:
        """Change offsets by records of the log; -1 stands for a deletion."""
        self.held.append(offsets)
        if not self.fixture.holds_commits:
            self.apply_held()

    def apply_held(self) -> None:
        for offsets in self.held:
            self.committed.update(offsets)
        self.held.clear()
        self.committed = {key: offset for key, offset in self.committed.items() if offset >= 0}

    @rule(seconds=st.integers(1, 12), all_is_well=st.booleans())
    def clients_live_on(self, seconds: int, all_is_well: bool) -> None:
        """Time passes, and every second all clients read their responses and send heartbeats."""
        if all_is_well:
            self.fixture.append_error = None
            self.commits_are_slow_or_not(False)
        for _ in range(seconds):
            for client in self.clients:
                if client.waiting is not None:
                    self.continue_request(client)
                elif client.generation < 0 or self.send_heartbeat(client) is not ErrorCode.NONE:
                    self.send_join(client)
            self.fixture.pass_time(1_000)

    # -- failures

    @rule(duration_ms=st.sampled_from([1, 1_000, 3_000, 6_000, 9_000, 61_000]))
    def time_passes(self, duration_ms: int) -> None:
        self.fixture.pass_time(duration_ms)

    @rule(error=st.none() | st.sampled_from(APPEND_ERRORS))
    def appends_fail_or_not(self, error: ErrorCode | None) -> None:
        self.fixture.append_error = error

    @rule(holds=st.booleans())
    def commits_are_slow_or_not(self, holds: bool) -> None:
        self.fixture.holds_commits = holds
        if not holds:
            self.fixture.commit_all()
            self.apply_held()

    @precondition(lambda self: self.fixture.append_error is None and not self.fixture.held)
    @rule()
    def offsets_expire(self) -> None:
        before = self.latest_offsets()
        self.fixture.expire()
        after = self.latest_offsets()
        assert after.items() <= before.items()
        self.expect_offsets({key: -1 for key in before if key not in after})

    @precondition(lambda self: self.fixture.append_error is None)
    @rule(group_id=group_ids)
    def a_group_is_deleted(self, group_id: str) -> None:
        group = self.fixture.coordinator._groups.get(group_id)
        is_empty = group is not None and group.state is GroupState.EMPTY
        before = self.latest_offsets()
        (result,) = self.fixture.finish(self.fixture.coordinator.administration.delete_groups((group_id,)))
        assert (result.error_code == ErrorCode.NONE) == is_empty
        if is_empty:
            self.expect_offsets({key: -1 for key in before if key[0] == group_id})

    @precondition(lambda self: not self.fixture.held)
    @rule()
    def the_partition_moves(self) -> None:
        successor = self.fixture.reload()
        self.fixture.coordinator.resign()
        assert all(not waiting.is_waiting for waiting in self.all_waiting)
        self.fixture = successor

    # -- invariants

    def latest_offsets(self) -> dict[tuple[str, str, int], int]:
        table = self.fixture.coordinator._offsets.latest
        return {tuple(key): committed.offset for key, committed in table.items()}  # type: ignore[misc]

    @invariant()
    def committed_offsets_are_those_last_committed(self) -> None:
        offsets = {
            (group_id, topic, partition): offset
            for group_id in ("g", "h")
            for (topic, partition), offset in self.fixture.offsets(group_id).items()
        }
        assert offsets == self.committed

    @invariant()
    def stable_groups_have_the_assignment_of_their_generation(self) -> None:
        for group in self.fixture.coordinator._groups:
            if group.state is GroupState.STABLE:
                candidates = self.handed_in[group.group_id, group.generation]
                held = {member.assignment for member in group.members.values()}
                assert any(held <= {*assigned.values(), b""} for assigned in candidates)

    @invariant()
    def bookkeeping_agrees_with_itself(self) -> None:
        held_bytes = 0
        for group in self.fixture.coordinator._groups:
            check_bookkeeping(group)
            held_bytes += group.memory.used_bytes
            for member in group.members.values():
                key = DeadlineKey(DeadlineKind.SESSION, group.group_id, member.member_id)
                watched = key in self.fixture.coordinator._deadlines._deadlines
                assert watched or member.is_excused_from_heartbeat
        assert self.fixture.coordinator.member_memory.used_bytes == held_bytes

    @precondition(lambda self: not self.fixture.held)
    @invariant()
    def the_log_says_the_same(self) -> None:
        other = self.fixture.reload()
        ours, theirs = self.fixture.coordinator, other.coordinator
        assert {group.group_id for group in ours._groups} == {group.group_id for group in theirs._groups}
        for group_id in ("g", "h"):
            assert self.fixture.offsets(group_id) == other.offsets(group_id)
            group, loaded = ours._groups.get(group_id), theirs._groups.get(group_id)
            if group is not None and group.state is GroupState.STABLE:
                assert loaded is not None
                assert (loaded.state, loaded.generation) == (GroupState.STABLE, group.generation)
                assert loaded.leader_id == group.leader_id
                assert {m.member_id: m.assignment for m in loaded.members.values()} == {
                    m.member_id: m.assignment for m in group.members.values()
                }

    def teardown(self) -> None:
        self.fixture.append_error = None
        self.fixture.holds_commits = False
        self.fixture.commit_all()
        self.fixture.pass_time(600_000)
        assert all(not waiting.is_waiting for waiting in self.all_waiting)
        assert {g.state for g in self.fixture.coordinator._groups} <= {GroupState.EMPTY}
        assert self.fixture.coordinator.next_deadline_ms() is None


def check_bookkeeping(group: Group) -> None:
    members = group.members.values()
    assert (group.leader_id in group.members) if group.members else group.leader_id is None
    assert group.parked_requests.join_count == sum(member.awaiting_join is not None for member in members)
    supporters = Counter(name for member in members for name in member.protocol_names())
    assert group._protocols._member_counts == supporters
    assert group.static_members == {
        member.group_instance_id: member.member_id for member in members if member.group_instance_id
    }
    assert all(member_id == member.member_id for member_id, member in group.members.items())
    assert not group.members.keys() & group.pending_members.keys()
    assert group.memory.used_bytes == sum(map(size_of, members)) + MEMBER_BYTES * len(group.pending_members)
    assert set(group.sync_phase.late_members) <= group.members.keys()
    assert bool(group.members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)


TestCoordinator = CoordinatorMachine.TestCase
TestCoordinator.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
