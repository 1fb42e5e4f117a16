"""Partitions move to other brokers: begun, taken back, and listed while under way.

A reassignment first adds the new replicas. When the leader has them in sync (AlterPartition), the
same change drops those that are to go. One that needs no new replica ends at once.

Source: KIP-455, KIP-860; ReplicationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidelog.cluster.controller.assignments import check_assignment
from tidelog.cluster.controller.partition_change import Wishes
from tidelog.cluster.controller.partition_limit import PartitionLimit
from tidelog.cluster.controller.partition_updates import PartitionUpdates
from tidelog.cluster.controller.reassignment_sets import ReplicaSets, is_reassigning, reverted, towards
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
from tidelog.protocol.steps import Steps, each


def alter_partition_reassignments(
    image: MetadataImage, settings: ControllerSettings, request: AlterPartitionReassignmentsRequest
) -> Steps[ControllerResult[AlterPartitionReassignmentsResponse]]:
    """Begin reassignments, or take them back where no replicas are named; each partition for itself."""
    reassignment = _Reassignment(image, settings, request.allow_replication_factor_change)
    responses = []
    for topic in request.topics:
        partitions = yield from each(partial(reassignment.outcome, topic.name), topic.partitions)
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
        for asked in request.topics:
            named = image.topics_by_name.get(asked.name)
            if named is not None:
                found += yield from _ongoing(named, asked.partition_indexes)
    return ListPartitionReassignmentsResponse(error_message=None, topics=tuple(found))


class _Reassignment:
    """The reassignments of one request."""

    def __init__(
        self, image: MetadataImage, settings: ControllerSettings, allow_replication_factor_change: bool
    ) -> None:
        self.updates = PartitionUpdates(image, settings)
        self._image = image
        self._limit = PartitionLimit(image, settings.partitions_per_broker_max)
        self._allows_other_factor = allow_replication_factor_change

    def outcome(self, name: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
        code, text = ErrorCode.NONE, None
        try:
            self._alter(name, asked)
        except KafkaError as error:
            code, text = error.code, str(error)
        return ReassignablePartitionResponse(
            partition_index=asked.partition_index, error_code=code, error_message=text
        )

    def _alter(self, name: str, asked: ReassignablePartition) -> None:
        topic = self._image.topics_by_name.get(name)
        partition = self.updates.partition(topic, asked.partition_index) if topic is not None else None
        if topic is None or partition is None:
            text = f"there is no partition {name}-{asked.partition_index}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        if asked.replicas is None:
            wishes = self._taken_back(topic, asked.partition_index, partition)
        else:
            wishes = self._begun(partition, asked.replicas)
            # What is removed is held until the new replicas are in sync.
            self._limit.take(name, [[each for each in asked.replicas if each not in partition.replicas]])
        self.updates.change(topic, asked.partition_index, wishes)

    def _begun(self, partition: PartitionImage, target: tuple[BrokerId, ...]) -> Wishes:
        check_assignment(self._image, target, None)
        if not self._allows_other_factor:
            current = len(set(partition.replicas) - set(partition.removing_replicas))
            if current != len(target):
                text = f"the replication factor would change from {current} to {len(target)}"
                raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        return Wishes(sets=towards(partition, target))

    def _taken_back(self, topic: TopicImage, index: int, partition: PartitionImage) -> Wishes:
        if not is_reassigning(partition):
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        revert = reverted(partition)
        if revert is None:
            text = f"{topic.name}-{index} would have no replica left"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        if revert.is_unclean and not self.updates.allows_unclean_election(topic):
            text = f"{topic.name}-{index}: only new replicas are in sync, going back would lose records"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        return Wishes(
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
