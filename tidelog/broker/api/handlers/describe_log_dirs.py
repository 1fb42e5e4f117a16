"""DescribeLogDirs (key 35): the partitions of each log directory with their sizes.

Versions 1-5. Source: KIP-113, KIP-827 (total and usable bytes), KIP-1066 (cordoned ones, from version 5 on).
"""

from __future__ import annotations

from collections import defaultdict

from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import may_access_cluster
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tidelog.protocol.steps import Steps
from tidelog.storage.directories.log_dir_description import LogDirDescription, describe_log_dir
from tidelog.storage.directories.log_manager import LogManager


class DescribeLogDirsHandler:
    """Describes every log directory; an offline one gets KAFKA_STORAGE_ERROR."""

    def __init__(self, logs: LogManager, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._logs = logs

    def handle(
        self, context: RequestContext, request: DescribeLogDirsRequest
    ) -> Steps[DescribeLogDirsResponse]:
        """Return the requested partitions, or all if `topics` is null."""
        if not may_access_cluster(self._authorizer, context, AclOperation.DESCRIBE):
            return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        requested: set[tuple[str, int]] | None = None
        if request.topics is not None:
            requested = set()
            for topic in request.topics:
                for index in topic.partitions:
                    requested.add((topic.topic, index))
                    yield None
        results = []
        for directory in tuple(self._logs.directories):
            description = yield from describe_log_dir(directory)
            is_cordoned = directory.path in self._logs.cordoned
            results.append((yield from _result(description, requested, is_cordoned=is_cordoned)))
        return DescribeLogDirsResponse(results=tuple(results))


def _result(
    directory: LogDirDescription, requested: set[tuple[str, int]] | None, *, is_cordoned: bool
) -> Steps[DescribeLogDirsResult]:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for (topic, index), size_bytes, offset_lag, is_future in directory.partitions:
        yield None
        if requested is None or (topic, index) in requested:
            by_topic[topic].append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=size_bytes,
                    offset_lag=offset_lag,
                    is_future_key=is_future,
                )
            )
    return DescribeLogDirsResult(
        error_code=directory.error_code,
        log_dir=directory.path,
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in by_topic.items()
        ),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
        is_cordoned=is_cordoned,
    )
