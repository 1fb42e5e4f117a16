"""Admin calls about leader elections and partition reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.clients.admin.admin_requests import AdminRequests, error_or_none
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.clients.transport.failures import raise_for
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tidelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


class ElectionType(IntEnum):
    """PREFERRED elects the first replica; UNCLEAN elects any replica if none leads, and may lose records."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionReassignment(NamedTuple):
    """A reassignment in progress; `replicas` includes the replicas that are added and removed."""

    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...]
    removing_replicas: tuple[BrokerId, ...]


class PartitionAdmin:
    """Leader elections and partition reassignments."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders of partitions (None: of all that need one); None for each elected leader."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        topics = None
        if partitions is not None:
            topics = tuple(
                TopicPartitions(topic=topic, partitions=tuple(numbers))
                for topic, numbers in partitions_by_topic(partitions).items()
            )
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=topics,
            timeout_ms=self._requests.remaining_ms(deadline_ms),
        )
        response = await self._requests.send_to_controller(request, ElectLeadersResponse, deadline_ms)
        raise_for(response.error_code, "elect leaders")
        return {
            TopicPartition(topic.topic, partition.partition_id): error_or_none(
                partition.error_code,
                f"election of {topic.topic}-{partition.partition_id}",
                partition.error_message,
            )
            for topic in response.replica_election_results
            for partition in topic.partition_result
        }

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[BrokerId] | None],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Start to move each partition to the given replicas; None cancels its reassignment."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        topics = tuple(
            ReassignableTopic(
                name=topic,
                partitions=tuple(
                    ReassignablePartition(
                        partition_index=number, replicas=_replicas(targets[TopicPartition(topic, number)])
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in partitions_by_topic(targets).items()
        )
        request = AlterPartitionReassignmentsRequest(
            topics=topics, timeout_ms=self._requests.remaining_ms(deadline_ms)
        )
        response = await self._requests.send_to_controller(
            request,
            AlterPartitionReassignmentsResponse,
            deadline_ms,
        )
        raise_for(response.error_code, "reassign partitions", response.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): error_or_none(
                partition.error_code,
                f"reassignment of {topic.name}-{partition.partition_index}",
                partition.error_message,
            )
            for topic in response.responses
            for partition in topic.partitions
        }

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress of these partitions (None: of all)."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        topics = None
        if partitions is not None:
            topics = tuple(
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=tuple(numbers))
                for topic, numbers in partitions_by_topic(partitions).items()
            )
        request = ListPartitionReassignmentsRequest(
            topics=topics, timeout_ms=self._requests.remaining_ms(deadline_ms)
        )
        response = await self._requests.send_to_controller(
            request,
            ListPartitionReassignmentsResponse,
            deadline_ms,
        )
        raise_for(response.error_code, "list reassignments", response.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): PartitionReassignment(
                partition.replicas, partition.adding_replicas, partition.removing_replicas
            )
            for topic in response.topics
            for partition in topic.partitions
        }


def _replicas(replicas: Sequence[BrokerId] | None) -> tuple[BrokerId, ...] | None:
    return None if replicas is None else tuple(replicas)
