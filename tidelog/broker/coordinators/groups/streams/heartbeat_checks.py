"""The checks of a StreamsGroupHeartbeat request.

Source: GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.throwIfStreamsGroupMemberEpochIsInvalid of Apache Kafka 4.3.1; the texts are Kafka's,
because clients show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.broker.coordinators.groups.consumer.member import STATIC_LEAVE_EPOCH
from tidelog.broker.coordinators.groups.epochs import JOIN_EPOCH
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.groups.streams.tasks import Tasks
from tidelog.broker.coordinators.groups.streams.topic_configuration import ConfiguredSubtopology
from tidelog.broker.coordinators.groups.streams.topology import invalid_topology
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Topology,
)


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY for a request that no group may accept."""
    _check_features(request)
    _check_not_empty(request.member_id, "MemberId can't be empty.")
    _check_not_empty(request.group_id, "GroupId can't be empty.")
    _check_not_empty(request.rack_id, "RackId can't be empty.")
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(tasks is not None for tasks in roles) and any(tasks is None for tasks in roles):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch != JOIN_EPOCH and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_features(request: StreamsGroupHeartbeatRequest) -> None:
    """Check that a request uses only what Apache Kafka 4.3 supports."""
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None and any(
        subtopology.source_topic_regex for subtopology in request.topology.subtopologies
    ):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in (
        (request.active_tasks, "ActiveTasks"),
        (request.standby_tasks, "StandbyTasks"),
        (request.warmup_tasks, "WarmupTasks"),
    ):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    _check_changelog_topics(request.topology)


def _check_changelog_topics(topology: Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise invalid_topology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that a member reports as owned; None if it reports none."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks.of(active, standby, warmup)


def check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the request has the member's epoch.

    The previous epoch is accepted as well if the member owns only tasks that are assigned to it: the response
    with the new epoch was lost.
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    if epoch > member.member_epoch:
        relation = "greater"
    elif epoch == member.previous_member_epoch and owned is not None and member.assigned.includes(owned):
        return
    else:
        relation = "smaller"
    text = (
        f"The streams group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )
    raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)


def check_tasks(
    request: StreamsGroupHeartbeatRequest, subtopologies: Mapping[str, ConfiguredSubtopology]
) -> None:
    """Raise INVALID_REQUEST if a member reports a task as owned that does not exist."""
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        _check_exist(tasks or (), subtopologies)


def _check_exist(tasks: Iterable[RequestTaskIds], subtopologies: Mapping[str, ConfiguredSubtopology]) -> None:
    for each in tasks:
        subtopology = subtopologies.get(each.subtopology_id)
        if subtopology is None:
            raise _invalid(f"Subtopology {each.subtopology_id} does not exist in the topology.")
        for index in each.partitions:
            if not 0 <= index < subtopology.task_count:
                raise _invalid(
                    f"Task {index} for subtopology {each.subtopology_id} is invalid. Number of tasks for "
                    f"this subtopology: {subtopology.task_count}"
                )


def _check_not_empty(value: str | None, text: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(text)


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
