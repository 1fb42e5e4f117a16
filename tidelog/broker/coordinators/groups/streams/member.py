"""One member of a streams group: its process, its client and its current tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import IntEnum
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.epochs import LEAVE_EPOCH
from tidelog.broker.coordinators.groups.streams.tasks import (
    NO_ASSIGNED_TASKS,
    AssignedTasks,
    TaskEpochs,
    task_set,
)
from tidelog.protocol.coordinator_records.streams_group import (
    CurrentTaskIds,
    Endpoint,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
)

MEMBER_BYTES: Final = 1_500
"""The overhead of a member in bytes: objects, keys, deadlines."""
_TAG_BYTES: Final = 150


class MemberState(IntEnum):
    """How far a member has reconciled to its target assignment; the numbers are those of the records.

    The transitions, all in `reconciliation`:

        STABLE -> UNREVOKED_TASKS                       the target lacks tasks that the member owns
        STABLE -> UNRELEASED_TASKS                      the target has tasks that other members own
        UNREVOKED_TASKS -> UNRELEASED_TASKS, STABLE     the member has revoked its tasks
        UNREVOKED_TASKS -> UNREVOKED_TASKS              it has, but there is a new target
        UNRELEASED_TASKS -> STABLE                      all tasks of the target are assigned
        UNRELEASED_TASKS -> UNREVOKED_TASKS             there is a new target
    """

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """A member. It is replaced, never modified.

    `assigned` are the tasks that it owns or may take; `pending_revocation` those that it must revoke.
    Members with the same `process_id` are threads of one process.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: AssignedTasks = NO_ASSIGNED_TASKS
    pending_revocation: AssignedTasks = NO_ASSIGNED_TASKS

    @property
    def size_bytes(self) -> int:
        """The memory of the member in bytes, without its tasks, which the topology and the topics bound."""
        texts = (self.member_id, self.client_id, self.process_id, self.rack_id or "", self.instance_id or "")
        endpoint = 0 if self.user_endpoint is None else len(self.user_endpoint.host)
        tags = sum(_TAG_BYTES + len(key) + len(value) for key, value in self.client_tags.items())
        return MEMBER_BYTES + sum(map(len, texts)) + endpoint + tags

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has all tasks of the target assignment of `epoch`."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, subtopology_id: str, partition: int) -> int | None:
        """Return the epoch at which the member got an active task; None if it neither owns nor revokes it."""
        epoch = self.assigned.active.get(subtopology_id, {}).get(partition)
        if epoch is None:
            return self.pending_revocation.active.get(subtopology_id, {}).get(partition)
        return epoch

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        """Return the member with the process and the client of a record."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=value.user_endpoint,
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue | None) -> StreamsMember:
        """Return the member with the current tasks of a record; None has deleted it."""
        if value is None:
            return replace(
                self,
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned=NO_ASSIGNED_TASKS,
                pending_revocation=NO_ASSIGNED_TASKS,
            )
        epoch = value.member_epoch
        return replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=AssignedTasks(
                active=_task_epochs(value.active_tasks, epoch),
                standby=task_set(value.standby_tasks),
                warmup=task_set(value.warmup_tasks),
            ),
            pending_revocation=AssignedTasks(
                active=_task_epochs(value.active_tasks_pending_revocation, epoch),
                standby=task_set(value.standby_tasks_pending_revocation),
                warmup=task_set(value.warmup_tasks_pending_revocation),
            ),
        )


def _task_epochs(tasks: Iterable[CurrentTaskIds], default_epoch: int) -> TaskEpochs:
    """Return the active tasks of a record; those without an epoch of their own get the member's."""
    return {
        each.subtopology_id: dict(
            zip(each.partitions, each.assignment_epochs, strict=True)
            if each.assignment_epochs is not None and len(each.assignment_epochs) == len(each.partitions)
            else dict.fromkeys(each.partitions, default_epoch)
        )
        for each in tasks
    }
