"""StreamsGroupDescribe: the epochs, the topology, the members and the assignments of a streams group.

Source: StreamsGroup.asDescribedGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.groups.streams.topic_configuration import InternalTopic
from tidelog.broker.coordinators.groups.streams.topology import StreamsTopology
from tidelog.protocol.coordinator_records import streams_group as record
from tidelog.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tidelog.protocol.steps import Steps


def describe_streams_group(group: StreamsGroup) -> Steps[DescribedGroup]:
    """Return the description of a group, with a step for each member."""
    members = []
    for member in list(group.members.values()):
        members.append(_member(group, member))
        yield None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epochs.group_epoch,
        assignment_epoch=group.epochs.assignment_epoch,
        topology=None if group.topology is None else _topology(group, group.topology),
        members=tuple(members),
    )


def _topology(group: StreamsGroup, topology: StreamsTopology) -> Topology:
    """Return the topology; a ready one has the partition counts of its internal topics."""
    configured = group.configured
    if configured is None or not configured.is_ready or configured.subtopologies is None:
        return Topology(
            epoch=topology.epoch,
            subtopologies=tuple(
                Subtopology(
                    subtopology_id=subtopology_id,
                    source_topics=tuple(sorted(each.source_topics)),
                    repartition_sink_topics=tuple(sorted(each.repartition_sink_topics)),
                    repartition_source_topics=_recorded_topics(each.repartition_source_topics),
                    state_changelog_topics=_recorded_topics(each.state_changelog_topics),
                )
                for subtopology_id, each in sorted(topology.subtopologies.items())
            ),
        )
    return Topology(
        epoch=topology.epoch,
        subtopologies=tuple(
            Subtopology(
                subtopology_id=subtopology_id,
                source_topics=tuple(sorted(subtopology.source_topics)),
                repartition_sink_topics=tuple(sorted(subtopology.repartition_sink_topics)),
                repartition_source_topics=_configured_topics(subtopology.repartition_source_topics),
                state_changelog_topics=_configured_topics(subtopology.state_changelog_topics),
            )
            for subtopology_id, subtopology in configured.subtopologies.items()
        ),
    )


def _recorded_topics(topics: Iterable[record.TopicInfo]) -> tuple[TopicInfo, ...]:
    return tuple(
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=tuple(KeyValue(key=each.key, value=each.value) for each in topic.topic_configs),
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    )


def _configured_topics(topics: Iterable[InternalTopic]) -> tuple[TopicInfo, ...]:
    return tuple(
        TopicInfo(
            name=topic.name,
            partitions=topic.partition_count,
            replication_factor=topic.replication_factor,
            topic_configs=tuple(KeyValue(key=key, value=value) for key, value in topic.configs.items()),
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    )


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    target, endpoint = group.target_of(member.member_id), member.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=tuple(KeyValue(key=key, value=value) for key, value in member.client_tags.items()),
        assignment=Assignment(
            active_tasks=_task_ids(member.assigned.active),
            standby_tasks=_task_ids(member.assigned.standby),
            warmup_tasks=_task_ids(member.assigned.warmup),
        ),
        target_assignment=Assignment(
            active_tasks=_task_ids(target.active),
            standby_tasks=_task_ids(target.standby),
            warmup_tasks=_task_ids(target.warmup),
        ),
    )


def _task_ids(tasks: Mapping[str, Collection[int]]) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(subtopology_id=subtopology_id, partitions=tuple(sorted(tasks[subtopology_id])))
        for subtopology_id in sorted(tasks)
    )
