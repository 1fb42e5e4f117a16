"""The tasks of each endpoint of a Kafka Streams application, for its interactive queries.

Source: EndpointToPartitionsManager of Apache Kafka 4.3.1, with the correction of KAFKA-20885.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.groups.streams.topic_configuration import ConfiguredSubtopology
from tidelog.protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    ResponseEndpoint,
    TopicPartition,
)


def endpoint_partitions(
    members: Iterable[StreamsMember], subtopologies: Mapping[str, ConfiguredSubtopology], topics: Topics
) -> tuple[EndpointToPartitions, ...]:
    """Return the partitions of the active and standby tasks of each member with an endpoint."""
    return tuple(
        EndpointToPartitions(
            user_endpoint=ResponseEndpoint(host=member.user_endpoint.host, port=member.user_endpoint.port),
            active_partitions=_partitions(member.assigned.active, subtopologies, topics),
            standby_partitions=_partitions(member.assigned.standby, subtopologies, topics),
        )
        for member in members
        if member.user_endpoint is not None
    )


def _partitions(
    tasks: Mapping[str, Collection[int]], subtopologies: Mapping[str, ConfiguredSubtopology], topics: Topics
) -> tuple[TopicPartition, ...]:
    """Return the partitions of the source topics of tasks; a topic may have fewer than its subtopology."""
    result = []
    for subtopology_id in sorted(tasks.keys() & subtopologies.keys()):
        for name in subtopologies[subtopology_id].all_source_topics:
            topic = topics.by_name(name)
            count = 0 if topic is None else len(topic.partitions)
            indexes = tuple(index for index in sorted(tasks[subtopology_id]) if index < count)
            result.append(TopicPartition(topic=name, partitions=indexes))
    return tuple(result)
