"""Admin calls about brokers and their log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidelog.clients.admin.admin_requests import AdminRequests
from tidelog.clients.admin.types import (
    ClusterDescription,
    LogDirDescription,
    LogDirPartition,
    ReplicaLogDirs,
    TopicPartitionReplica,
)
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.failures import failure
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tidelog.protocol.registry import ApiKey

_FIRST_WITH_FENCED = 2


class ClusterAdmin:
    """Brokers and log directories."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe_cluster(
        self, *, include_fenced: bool = False, timeout_ms: int | None = None
    ) -> ClusterDescription:
        """Return the cluster id, the brokers and the controller."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def call() -> DescribeClusterResponse:
            connection = await self._requests.client.network.any_connection()
            version = connection.version_of(ApiKey.DESCRIBE_CLUSTER)
            request = DescribeClusterRequest(
                include_fenced_brokers=include_fenced and version >= _FIRST_WITH_FENCED
            )
            remaining_ms = self._requests.remaining_ms(deadline_ms)
            return await connection.request(request, DescribeClusterResponse, timeout_ms=remaining_ms)

        try:
            response = await self._requests.retry(call, deadline_ms)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            return await self._cluster_from_metadata(deadline_ms)
        if response.error_code != ErrorCode.NONE:
            raise failure(response.error_code, "describe cluster", response.error_message)
        brokers = tuple(
            BrokerAddress(entry.broker_id, entry.host, entry.port, entry.rack) for entry in response.brokers
        )
        return ClusterDescription(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers=brokers,
            fenced=frozenset(entry.broker_id for entry in response.brokers if entry.is_fenced),
        )

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[BrokerId] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[BrokerId, dict[str, LogDirDescription] | KafkaError]:
        """Return the log directories of each broker (None: of all brokers) by path."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        ids = self._requests.client.network.broker_ids if broker_ids is None else tuple(broker_ids)
        topics = None
        if partitions is not None:
            topics = tuple(
                DescribableLogDirTopic(topic=topic, partitions=tuple(numbers))
                for topic, numbers in partitions_by_topic(partitions).items()
            )
        request = DescribeLogDirsRequest(topics=topics)
        responses = await asyncio.gather(
            *(self._describe_log_dirs_of(id_, request, deadline_ms) for id_ in ids)
        )
        return dict(zip(ids, responses, strict=True))

    async def alter_replica_log_dirs(
        self, assignment: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
    ) -> dict[TopicPartitionReplica, KafkaError | None]:
        """Begin to move replicas to log directories of their brokers; return None or the error of each."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        ids = list(dict.fromkeys(replica.broker_id for replica in assignment))
        outcomes = await asyncio.gather(
            *(
                self._alter_log_dirs_of(
                    {replica: path for replica, path in assignment.items() if replica.broker_id == broker_id},
                    broker_id,
                    deadline_ms,
                )
                for broker_id in ids
            )
        )
        merged = {replica: error for each in outcomes for replica, error in each.items()}
        return {replica: merged[replica] for replica in assignment}

    async def _alter_log_dirs_of(
        self, assignment: Mapping[TopicPartitionReplica, str], broker_id: BrokerId, deadline_ms: int
    ) -> dict[TopicPartitionReplica, KafkaError | None]:
        paths: dict[str, list[TopicPartition]] = {}
        for replica, path in assignment.items():
            paths.setdefault(path, []).append(replica.topic_partition)
        request = AlterReplicaLogDirsRequest(
            dirs=tuple(
                AlterReplicaLogDir(
                    path=path,
                    topics=tuple(
                        AlterReplicaLogDirTopic(name=topic, partitions=tuple(numbers))
                        for topic, numbers in partitions_by_topic(partitions).items()
                    ),
                )
                for path, partitions in paths.items()
            )
        )
        try:
            response = await self._requests.send(
                request, AlterReplicaLogDirsResponse, deadline_ms, node_id=broker_id
            )
        except KafkaError as error:
            return dict.fromkeys(assignment, error)
        codes = {
            TopicPartitionReplica(
                topic.topic_name, partition.partition_index, broker_id
            ): partition.error_code
            for topic in response.results
            for partition in topic.partitions
        }
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        return {
            replica: None
            if (code := codes.get(replica, missing)) == ErrorCode.NONE
            else failure(code, f"log directory of {replica.topic_partition} on broker {broker_id}")
            for replica in assignment
        }

    async def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout_ms: int | None = None
    ) -> dict[TopicPartitionReplica, ReplicaLogDirs | KafkaError]:
        """Return the current and the future log directory of each replica."""
        requested = list(replicas)
        described = await self.describe_log_dirs(
            dict.fromkeys(replica.broker_id for replica in requested),
            partitions=dict.fromkeys(replica.topic_partition for replica in requested),
            timeout_ms=timeout_ms,
        )
        return {replica: _replica_log_dirs(replica, described[replica.broker_id]) for replica in requested}

    async def _cluster_from_metadata(self, deadline_ms: int) -> ClusterDescription:
        """Return the description for brokers that do not support DescribeCluster."""
        self._requests.client.updater.request_update()
        try:
            await self._requests.client.updater.wait_for_update(deadline_ms)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "timed out waiting for metadata") from None
        metadata = self._requests.client.metadata
        return ClusterDescription(
            cluster_id=metadata.cluster_id,
            controller_id=metadata.controller_id,
            brokers=tuple(metadata.brokers.values()),
        )

    async def _describe_log_dirs_of(
        self, broker_id: BrokerId, request: DescribeLogDirsRequest, deadline_ms: int
    ) -> dict[str, LogDirDescription] | KafkaError:
        try:
            response = await self._requests.send(
                request, DescribeLogDirsResponse, deadline_ms, node_id=broker_id
            )
        except KafkaError as error:
            return error
        if response.error_code != ErrorCode.NONE:
            return failure(response.error_code, f"log directories of broker {broker_id}")
        return {entry.log_dir: _log_dir(entry) for entry in response.results}


def _replica_log_dirs(
    replica: TopicPartitionReplica, directories: Mapping[str, LogDirDescription] | KafkaError
) -> ReplicaLogDirs | KafkaError:
    if isinstance(directories, KafkaError):
        return directories
    places = ReplicaLogDirs()
    for path, directory in directories.items():
        log = directory.partitions.get(replica.topic_partition)
        if log is None:
            continue
        if log.is_future:
            places = replace(places, future_log_dir=path, future_offset_lag=log.offset_lag)
        else:
            places = replace(places, current_log_dir=path, offset_lag=log.offset_lag)
    return places


def _log_dir(entry: DescribeLogDirsResult) -> LogDirDescription:
    error = None
    if entry.error_code != ErrorCode.NONE:
        error = failure(entry.error_code, f"log directory {entry.log_dir!r}")
    partitions = {
        TopicPartition(topic.name, partition.partition_index): LogDirPartition(
            size_bytes=partition.partition_size,
            offset_lag=partition.offset_lag,
            is_future=partition.is_future_key,
        )
        for topic in entry.topics
        for partition in topic.partitions
    }
    return LogDirDescription(
        path=entry.log_dir,
        error=error,
        partitions=partitions,
        total_bytes=entry.total_bytes,
        usable_bytes=entry.usable_bytes,
    )
