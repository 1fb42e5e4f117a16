"""AlterReplicaLogDirs (key 34): moves replicas of this broker to other log directories.

Versions 1-2. The response does not wait for the moves: DescribeLogDirs shows them. Source: KIP-113.
"""

from __future__ import annotations

import logging
from collections import defaultdict

from tidelog.base.log_limit import LogLimit
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.replication.log_dir_moves import LogDirMoves
from tidelog.broker.security.authorization.access import may_access_cluster
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from tidelog.protocol.steps import Steps, map_items

logger = logging.getLogger(__name__)


class AlterReplicaLogDirsHandler:
    """Begins and cancels moves; each replica has its own outcome."""

    def __init__(self, moves: LogDirMoves, authorizer: Authorizer, log_limit: LogLimit) -> None:
        self._moves = moves
        self._authorizer = authorizer
        self._log_limit = log_limit

    def handle(
        self, context: RequestContext, request: AlterReplicaLogDirsRequest
    ) -> Steps[AlterReplicaLogDirsResponse]:
        """Move every named replica; one that is named twice is moved to the last directory, as in Kafka."""
        is_allowed = may_access_cluster(self._authorizer, context, AclOperation.ALTER)
        paths: dict[TopicPartition, str] = {}
        for directory in request.dirs:
            for topic in directory.topics:
                for index in topic.partitions:
                    paths[TopicPartition(topic.name, index)] = directory.path
                    yield None
        by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
        for topic_partition, path in paths.items():
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            if is_allowed:
                code = self._alter(topic_partition, path)
            result = AlterReplicaLogDirPartitionResult(
                partition_index=topic_partition.partition, error_code=code
            )
            by_topic[topic_partition.topic].append(result)
            yield None
        results = yield from map_items(
            lambda topic: AlterReplicaLogDirTopicResult(topic_name=topic[0], partitions=tuple(topic[1])),
            by_topic.items(),
        )
        return AlterReplicaLogDirsResponse(results=results)

    def _alter(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        try:
            self._moves.alter(topic_partition, path)
        except KafkaError as error:
            # A request can name thousands of replicas.
            text = "Cannot move %s to log directory %s: %s"
            self._log_limit.log(logger, logging.WARNING, text, topic_partition, path, error)
            return error.code
        return ErrorCode.NONE
