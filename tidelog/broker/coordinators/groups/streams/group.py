"""One streams group: its epochs, topology, members and assignments. Only replay changes what is recorded.

The configured topology, the epoch of the endpoints and a request to shut down are not recorded: the next
coordinator determines them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum

from tidelog.broker.coordinators.groups.classic.member_memory import GroupMemory
from tidelog.broker.coordinators.groups.epochs import GroupEpochs
from tidelog.broker.coordinators.groups.members.lookup import existing_member
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.groups.streams.task_owners import TaskOwners
from tidelog.broker.coordinators.groups.streams.tasks import NO_TASKS, Tasks
from tidelog.broker.coordinators.groups.streams.topic_configuration import ConfiguredTopology
from tidelog.broker.coordinators.groups.streams.topology import StreamsTopology


class StreamsGroupState(Enum):
    """The state of a streams group; the value is its name in admin responses.

    It results from the epochs: Empty without members, NotReady while a topic is missing or has a wrong
    partition count, Assigning while the group epoch has no target assignment, Reconciling until all members
    have reconciled to it, then Stable.
    """

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"

    @property
    def metric_label(self) -> str:
        """The name of the state in metrics and in filters of states."""
        return "not_ready" if self is StreamsGroupState.NOT_READY else self.value.lower()


class StreamsGroup:
    """The state of one group."""

    def __init__(self, group_id: str, memory: GroupMemory) -> None:
        self.group_id = group_id
        self.memory = memory
        self.epochs = GroupEpochs()
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        self.topology: StreamsTopology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.target: dict[str, Tasks] = {}
        self.owners = TaskOwners()
        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        self.shutdown_requested_by: str | None = None

    # State

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def state(self) -> StreamsGroupState:
        """The state, in time linear in the number of members."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        assignment_epoch = self.epochs.assignment_epoch
        if self.epochs.group_epoch > assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def set_validated_topology_epoch(self, epoch: int) -> None:
        """Set the epoch of the topology whose topics exist with the right partition counts; -1 for none."""
        self.validated_topology_epoch = epoch

    def set_assignment_configs(self, configs: Mapping[str, str]) -> None:
        """Set the configs with which the assignor is used at the group epoch."""
        self.assignment_configs = configs

    # Topology

    def set_topology(self, topology: StreamsTopology | None) -> None:
        """Set the topology; None deletes it."""
        for each, change in ((self.topology, -1), (topology, 1)):
            if each is not None:
                self.memory.grow(change * each.size_bytes)
        self.topology = topology
        self.configured = None

    def set_configured(self, configured: ConfiguredTopology) -> None:
        """Set the topology as compared with the topics that exist."""
        self.configured = configured

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members read a topic; a group without members reads none."""
        return (
            bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of_topic
        )

    def uses_any(self, topics: Set[str]) -> bool:
        """Return whether one of the topics belongs to the topology."""
        return self.topology is not None and not self.topology.required_topics.isdisjoint(topics)

    # Members

    def member(self, member_id: str) -> StreamsMember:
        """Return a member. Raise UNKNOWN_MEMBER_ID if there is none with this id."""
        return existing_member(self.members, member_id, self.group_id)

    def update_member(self, member: StreamsMember) -> None:
        """Add a member, or replace the one with its id."""
        self._release(self.members.get(member.member_id))
        self.members[member.member_id] = member
        self.memory.grow(member.size_bytes)
        self.owners.add(member.assigned, member.process_id)
        self.owners.add(member.pending_revocation, member.process_id)

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if there is one with this id."""
        self._release(self.members.pop(member_id, None))
        if not self.members:
            self.shutdown_requested_by = None

    def _release(self, member: StreamsMember | None) -> None:
        if member is not None:
            self.memory.grow(-member.size_bytes)
            self.owners.remove(member.assigned, member.process_id)
            self.owners.remove(member.pending_revocation, member.process_id)

    # Requests of members

    def request_shutdown(self, member_id: str) -> None:
        """Request a shutdown of all members, because of an error of one; the first one is named."""
        if self.shutdown_requested_by is None:
            self.shutdown_requested_by = member_id

    def on_endpoints_changed(self) -> None:
        """Let members fetch the tasks of all endpoints again."""
        self.endpoint_epoch += 1

    # Target assignment

    def target_of(self, member_id: str) -> Tasks:
        """Return the target assignment of a member."""
        return self.target.get(member_id, NO_TASKS)

    def set_target(self, member_id: str, tasks: Tasks | None) -> None:
        """Set the target assignment of a member; None deletes it."""
        if tasks is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = tasks
