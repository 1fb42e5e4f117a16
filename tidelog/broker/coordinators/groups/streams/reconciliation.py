"""Brings the current tasks of a member one step nearer to its target assignment.

A member first revokes the tasks that its target lacks: it is in state UNREVOKED_TASKS until a heartbeat
shows that it does not own them any more. Then it advances to the epoch of the target and gets the tasks that
are free: an active task runs in no other process, and its own process has the task in no other role. If some
are not free, it is in state UNRELEASED_TASKS, and later heartbeats add them.

Source: CurrentAssignmentBuilder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.streams.member import MemberState, StreamsMember
from tidelog.broker.coordinators.groups.streams.task_owners import TaskOwners
from tidelog.broker.coordinators.groups.streams.tasks import (
    NO_ASSIGNED_TASKS,
    AssignedTasks,
    Tasks,
    TaskSet,
)
from tidelog.protocol.errors import ErrorCode, KafkaError

_NONE: Final[frozenset[int]] = frozenset()


class _Difference(NamedTuple):
    """The current tasks of one role compared with the target.

    `free` are missing tasks that the member may take. `is_waiting` is true if others are not free yet.
    """

    kept: dict[str, frozenset[int]]
    revoked: dict[str, frozenset[int]]
    free: dict[str, frozenset[int]]
    is_waiting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The values on which the next step of a member depends.

    `owned` are the tasks that the member reports as owned; None if it reports none.
    """

    target_epoch: int
    target: Tasks
    owners: TaskOwners
    owned: Tasks | None

    def next_step(self, member: StreamsMember) -> StreamsMember:
        """Return the member after its next step. Raise FENCED_MEMBER_EPOCH if its state is unknown."""
        match member.state:
            case MemberState.STABLE:
                is_current = member.member_epoch == self.target_epoch
                return member if is_current else self._advance(member, member.member_epoch)
            case MemberState.UNREVOKED_TASKS:
                if self._may_own_any(member.pending_revocation):
                    return member
                return self._advance(member, member.member_epoch + 1)
            case MemberState.UNRELEASED_TASKS:
                return self._advance(member, member.member_epoch)
        if self.owned is None or not self.owned.is_empty:
            text = (
                "The streams group member is in a unknown state. The member must abandon all its tasks and "
                "rejoin."
            )
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)
        return self._advance(member, self.target_epoch)

    def _may_own_any(self, tasks: AssignedTasks) -> bool:
        return self.owned is None or tasks.has_any(self.owned)

    def _advance(self, member: StreamsMember, epoch: int) -> StreamsMember:
        """Revoke what the target lacks, at `epoch`; if nothing is left to revoke, advance to the target."""
        process_id, assigned = member.process_id, member.assigned

        def is_active_free(subtopology_id: str, partition: int) -> bool:
            return self.owners.active_process(
                subtopology_id, partition
            ) is None and not self.owners.has_replica(process_id, subtopology_id, partition)

        def is_replica_free(subtopology_id: str, partition: int) -> bool:
            return self.owners.active_process(
                subtopology_id, partition
            ) != process_id and not self.owners.has_replica(process_id, subtopology_id, partition)

        active = _difference(assigned.active, self.target.active, is_active_free)
        standby = _difference(assigned.standby, self.target.standby, is_replica_free)
        warmup = _difference(assigned.warmup, self.target.warmup, is_replica_free)
        kept = AssignedTasks(
            active=_with_epochs(active.kept, assigned), standby=standby.kept, warmup=warmup.kept
        )
        revoked = AssignedTasks(
            active=_with_epochs(active.revoked, assigned), standby=standby.revoked, warmup=warmup.revoked
        )
        if not revoked.is_empty and self._may_own_any(revoked):
            return replace(
                member,
                state=MemberState.UNREVOKED_TASKS,
                member_epoch=epoch,
                previous_member_epoch=member.member_epoch,
                assigned=kept,
                pending_revocation=revoked,
            )
        added = AssignedTasks(
            active={
                each: dict.fromkeys(sorted(free), self.target_epoch) for each, free in active.free.items()
            },
            standby=standby.free,
            warmup=warmup.free,
        )
        is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
        return replace(
            member,
            state=MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE,
            member_epoch=self.target_epoch,
            previous_member_epoch=member.member_epoch,
            assigned=kept if added.is_empty else kept.merged(added),
            pending_revocation=NO_ASSIGNED_TASKS,
        )


def _difference(
    current: Mapping[str, Collection[int]], target: TaskSet, is_free: Callable[[str, int], bool]
) -> _Difference:
    kept: dict[str, frozenset[int]] = {}
    revoked: dict[str, frozenset[int]] = {}
    free: dict[str, frozenset[int]] = {}
    is_waiting = False
    for subtopology_id in dict.fromkeys((*target, *current)):
        wanted, owned = target.get(subtopology_id, _NONE), frozenset(current.get(subtopology_id, _NONE))
        if owned & wanted:
            kept[subtopology_id] = owned & wanted
        if owned - wanted:
            revoked[subtopology_id] = owned - wanted
        missing = wanted - owned
        available = frozenset(index for index in missing if is_free(subtopology_id, index))
        if available:
            free[subtopology_id] = available
        is_waiting = is_waiting or len(available) < len(missing)
    return _Difference(kept, revoked, free, is_waiting)


def _with_epochs(tasks: TaskSet, assigned: AssignedTasks) -> dict[str, dict[int, int]]:
    """Return active tasks with the epochs at which they were assigned."""
    return {
        subtopology_id: {index: assigned.active[subtopology_id][index] for index in sorted(indexes)}
        for subtopology_id, indexes in tasks.items()
    }
