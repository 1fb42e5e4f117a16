"""OffsetForLeaderEpoch (key 23): the end of a leader epoch in the log (versions 2-4).

A reader that knows the epoch of its last record can check whether that record is still in the log. A follower
uses the end to truncate its log after an election. Only the leader responds.

Source: KIP-101, KIP-279, KIP-320.
"""

from __future__ import annotations

from functools import partial

from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.security.authorization.access import may_access_cluster
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from tidelog.protocol.steps import Steps, map_items


class OffsetForLeaderEpochHandler:
    """Uses the leader-epoch cache: the largest epoch that is not above the requested one, and its end."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._replicas = replicas

    def handle(
        self, context: RequestContext, request: OffsetForLeaderEpochRequest
    ) -> Steps[OffsetForLeaderEpochResponse]:
        """Return the result of every partition; for an unknown epoch the epoch -1 and the offset -1."""
        topics = []
        is_broker = may_access_cluster(
            self._authorizer, context, AclOperation.CLUSTER_ACTION, logs_denial=False
        )
        for topic in request.topics:
            is_allowed = is_broker or self._authorizer.is_authorized(
                context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic
            )
            result = partial(self._result, topic.topic) if is_allowed else _denied
            partitions = yield from map_items(result, topic.partitions)
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
            yield None
        return OffsetForLeaderEpochResponse(topics=tuple(topics))

    def _result(self, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            partition = self._replicas.partition(TopicPartition(topic, requested.partition))
            partition.require_leader(requested.current_leader_epoch)
        except KafkaError as error:
            return EpochEndOffset(partition=requested.partition, error_code=error.code)
        log = partition.log
        epoch, end_offset = log.leader_epochs.end_offset_for(requested.leader_epoch, log.log_end_offset)
        return EpochEndOffset(partition=requested.partition, leader_epoch=epoch, end_offset=end_offset)


def _denied(requested: OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(partition=requested.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
