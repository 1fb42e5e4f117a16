"""Partition reassignments: commands that begin, cancel and list them.

A reassignment first adds the new replicas. The AlterPartition change that has all of them in the ISR also
removes the other replicas. A reassignment without new replicas is completed at once.

Source: KIP-455, KIP-860; ReplicationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidelog.cluster.controller.assignments import check_assignment
from tidelog.cluster.controller.partition_change import RequestedChange
from tidelog.cluster.controller.partition_limit import PartitionLimit
from tidelog.cluster.controller.partition_updates import PartitionUpdates
from tidelog.cluster.controller.reassignment_sets import (
    ReplicaSets,
    begin_reassignment,
    is_reassigning,
    revert_reassignment,
)
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage, PartitionImage, TopicImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tidelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tidelog.protocol.steps import Steps, map_items


def alter_partition_reassignments(
    image: MetadataImage, settings: ControllerSettings, request: AlterPartitionReassignmentsRequest
) -> Steps[ControllerResult[AlterPartitionReassignmentsResponse]]:
    """Begin reassignments, or cancel them if the replicas are null; every partition has its own outcome."""
    reassignment = _Reassignment(image, settings, request.allow_replication_factor_change)
    responses = []
    for topic in request.topics:
        partitions = yield from map_items(partial(reassignment.alter_partition, topic.name), topic.partitions)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
        yield None
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=tuple(responses),
    )
    return ControllerResult(tuple(reassignment.updates.records), reply)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Steps[ListPartitionReassignmentsResponse]:
    """Return the ongoing reassignments of all topics or of the requested partitions."""
    found: list[OngoingTopicReassignment] = []
    if request.topics is None:
        for topic in image.topics_by_name.values():
            found += yield from _ongoing(topic, topic.partitions)
    else:
        for requested in request.topics:
            topic_image = image.topics_by_name.get(requested.name)
            if topic_image is not None:
                found += yield from _ongoing(topic_image, requested.partition_indexes)
    return ListPartitionReassignmentsResponse(error_message=None, topics=tuple(found))


class _Reassignment:
    """Begins and cancels the reassignments of one request."""

    def __init__(
        self, image: MetadataImage, settings: ControllerSettings, allow_replication_factor_change: bool
    ) -> None:
        self.updates = PartitionUpdates(image, settings)
        self._image = image
        self._limit = PartitionLimit(image, settings.partitions_per_broker_max)
        self._allow_replication_factor_change = allow_replication_factor_change

    def alter_partition(self, name: str, requested: ReassignablePartition) -> ReassignablePartitionResponse:
        code, text = ErrorCode.NONE, None
        try:
            self._alter(name, requested)
        except KafkaError as error:
            code, text = error.code, str(error)
        return ReassignablePartitionResponse(
            partition_index=requested.partition_index, error_code=code, error_message=text
        )

    def _alter(self, name: str, requested: ReassignablePartition) -> None:
        topic = self._image.topics_by_name.get(name)
        partition = self.updates.partition(topic, requested.partition_index) if topic is not None else None
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name!r}.")
        if partition is None:
            text = f"Unable to find partition {name}-{requested.partition_index}."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        if requested.replicas is None:
            change = self._cancel(topic, requested.partition_index, partition)
        else:
            change = self._begin(partition, requested.replicas)
            # The removed replicas are kept until the new ones are in sync.
            self._limit.add_replicas(
                name, [[each for each in requested.replicas if each not in partition.replicas]]
            )
        self.updates.change(topic, requested.partition_index, change)

    def _begin(self, partition: PartitionImage, target: tuple[BrokerId, ...]) -> RequestedChange:
        check_assignment(self._image, target, None)
        if not self._allow_replication_factor_change:
            current = len(set(partition.replicas) - set(partition.removing_replicas))
            if current != len(target):
                text = f"The replication factor is changed from {current} to {len(target)}"
                raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        return RequestedChange(sets=begin_reassignment(partition, target))

    def _cancel(self, topic: TopicImage, index: int, partition: PartitionImage) -> RequestedChange:
        if not is_reassigning(partition):
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        revert = revert_reassignment(partition)
        if revert is None:
            text = (
                f"Unable to revert partition assignment for {topic.name}-{index}: addingReplicas contains "
                "all replicas."
            )
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        if revert.is_unclean and not self.updates.allows_unclean_election(topic):
            text = (
                f"Unable to revert partition assignment for {topic.name}-{index} because it would require an "
                "unclean leader election."
            )
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        return RequestedChange(
            isr=revert.isr, sets=ReplicaSets(revert.replicas), election=self.updates.election(topic)
        )


def _ongoing(topic: TopicImage, indexes: Iterable[int]) -> Steps[list[OngoingTopicReassignment]]:
    """Return the partitions among `indexes` that are being reassigned; empty if there are none."""
    partitions = []
    yield None
    for index in indexes:
        partition = topic.partitions.get(index)
        if partition is not None and is_reassigning(partition):
            partitions.append(
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=partition.replicas,
                    adding_replicas=partition.adding_replicas,
                    removing_replicas=partition.removing_replicas,
                )
            )
        yield None
    if not partitions:
        return []
    return [OngoingTopicReassignment(name=topic.name, partitions=tuple(partitions))]
