"""Leader elections on request or by a periodic task: of the preferred replica, or unclean ones.

Source: KIP-183, KIP-460; ReplicationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from tidelog.cluster.controller.partition_change import Election, RequestedChange
from tidelog.cluster.controller.partition_scans import imbalanced_partitions, leaderless_partitions
from tidelog.cluster.controller.partition_updates import PartitionUpdates
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import NO_LEADER, MetadataImage, TopicImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tidelog.protocol.steps import Steps, map_items

MAX_ELECTIONS: Final = 1000
"""The maximum number of elections in one call of a periodic task, so that other commands are not delayed."""


class ElectionType(IntEnum):
    """The kind of election; the numbers of ElectLeaders requests."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: MetadataImage, settings: ControllerSettings, request: ElectLeadersRequest
) -> Steps[ControllerResult[ElectLeadersResponse]]:
    """Elect leaders; every partition has its own outcome.

    A request without partitions is for all of them; its response omits the partitions that need no election.
    Errors: KafkaError INVALID_REQUEST if the election type is unknown.
    """
    if request.election_type not in tuple(ElectionType):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    elections = _Elections(image, settings, ElectionType(request.election_type))
    results = []
    if request.topic_partitions is None:
        for topic in image.topics_by_name.values():
            outcomes = yield from elections.elect_all(topic, topic.name, topic.partitions)
            needed = tuple(each for each in outcomes if each.error_code != ErrorCode.ELECTION_NOT_NEEDED)
            results.append(ReplicaElectionResult(topic=topic.name, partition_result=needed))
            yield None
    else:
        for requested in request.topic_partitions:
            topic_image = image.topics_by_name.get(requested.topic)
            outcomes = yield from elections.elect_all(topic_image, requested.topic, requested.partitions)
            results.append(ReplicaElectionResult(topic=requested.topic, partition_result=outcomes))
            yield None
    reply = ElectLeadersResponse(replica_election_results=tuple(results))
    return ControllerResult(tuple(elections.updates.records), reply, is_atomic=False)


def balance_leaders(image: MetadataImage, settings: ControllerSettings) -> ControllerResult[bool]:
    """Elect preferred replicas where they can lead; return whether more elections may remain.

    For `auto.leader.rebalance.enable`. Like Kafka's quorum controller it corrects every imbalance and ignores
    `leader.imbalance.per.broker.percentage`.
    """
    updates = PartitionUpdates(image, settings)
    for topic, index in imbalanced_partitions(image):
        if len(updates.records) >= MAX_ELECTIONS:
            break
        updates.change(topic, index, RequestedChange(election=Election.PREFERRED))
    return ControllerResult(tuple(updates.records), len(updates.records) >= MAX_ELECTIONS, is_atomic=False)


def elect_unclean(image: MetadataImage, settings: ControllerSettings) -> ControllerResult[bool]:
    """Elect any replica of leaderless partitions if their topic allows it; return whether more may remain."""
    updates = PartitionUpdates(image, settings)
    for topic, index in leaderless_partitions(image):
        if len(updates.records) >= MAX_ELECTIONS:
            break
        if updates.allows_unclean_election(topic):
            updates.change(topic, index, RequestedChange(election=Election.UNCLEAN))
    return ControllerResult(tuple(updates.records), len(updates.records) >= MAX_ELECTIONS, is_atomic=False)


class _Elections:
    """The elections of one request."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings, kind: ElectionType) -> None:
        self.updates = PartitionUpdates(image, settings)
        self._kind = kind

    def elect_all(
        self, topic: TopicImage | None, name: str, indexes: Iterable[int]
    ) -> Steps[tuple[PartitionResult, ...]]:
        """Return the outcome of each partition; one step for each."""
        return (yield from map_items(lambda index: self._elect(topic, name, index), indexes))

    def _elect(self, topic: TopicImage | None, name: str, index: int) -> PartitionResult:
        code, text = self._outcome(topic, name, index)
        return PartitionResult(partition_id=index, error_code=code, error_message=text)

    def _outcome(self, topic: TopicImage | None, name: str, index: int) -> tuple[ErrorCode, str | None]:
        partition = self.updates.partition(topic, index) if topic is not None else None
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
        if self._kind is ElectionType.PREFERRED:
            if partition.leader == partition.replicas[0]:
                return ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.text
            election, failure = Election.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        else:
            if partition.leader != NO_LEADER:
                return ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.text
            election, failure = Election.UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        if self.updates.change(topic, index, RequestedChange(election=election)) is None:
            return failure, failure.text
        return ErrorCode.NONE, None
