"""The remote reads of one ShareFetch: records below the local log start, as for a Fetch of a client.

While a fetch reads a share partition from remote storage, other fetches leave it to that fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from tidelog.broker.fetching.delayed_fetch import WaitingFetch
from tidelog.broker.fetching.delayed_remote_fetch import DelayedRemoteFetch
from tidelog.broker.fetching.fetch_read import FetchLimits, FetchRead, RemotePartition, result_with_offsets
from tidelog.broker.fetching.remote_fetch import RemoteAccess
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.share_partitions.registry import SharePartitions
from tidelog.broker.share_partitions.share_read import RemotePart, ShareFetchLimits
from tidelog.protocol.views.fetch_request_view import FetchPartition
from tidelog.protocol.views.fetch_response_view import FetchPartitionResult


class RemoteShareFetch:
    """Reads `parts` from remote storage; `on_read` gets their results, in the same order."""

    def __init__(
        self,
        parts: Sequence[RemotePart],
        share_partitions: SharePartitions,
        on_read: Callable[[Sequence[FetchPartitionResult]], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._parts = parts
        self._share_partitions = share_partitions
        self._on_read = on_read
        self._on_failed = on_failed
        self._operation: DelayedRemoteFetch | None = None
        for part in parts:
            part.hosted.remote_reader = self

    def start(self, replicas: ReplicaManager, remote: RemoteAccess, limits: ShareFetchLimits) -> None:
        """Begin to read. The results are passed on at the latest after remote.fetch.max.wait.ms."""
        read = FetchRead([])
        read.remote = []
        requested: dict[Hashable, FetchPartition] = {}
        for index, part in enumerate(self._parts):
            partition = part.hosted.partition
            wanted = FetchPartition(
                None,
                partition.topic_id,
                partition.topic_partition.partition,
                part.hosted.delivery.leader_epoch,
                part.offset,
                -1,
                -1,
                part.max_bytes,
            )
            requested[partition.topic_partition] = wanted
            read.remote.append(
                RemotePartition(index, wanted, partition, part.max_bytes, at_least_one=not index)
            )
            read.results.append((wanted, result_with_offsets(partition)))
        fetch_limits = FetchLimits(-1, limits.isolation, 0, limits.max_bytes, remote=remote.reader)
        operation = DelayedRemoteFetch(
            remote.fetch_max_wait_ms(),
            WaitingFetch(replicas, fetch_limits, requested),
            read,
            remote.reader,
            self._complete,
            self._fail,
        )
        self._operation = operation
        remote.fetches.try_complete_else_watch(operation, requested)

    def cancel(self) -> None:
        """End without results: the client has disconnected."""
        if self._operation is not None:
            self._operation.cancel()
        self._end()

    def _complete(self, read: FetchRead) -> None:
        self._end_reading()
        self._on_read([result for _, result in read.results])
        self._wake()

    def _fail(self, error: Exception) -> None:
        self._end()
        self._on_failed(error)

    def _end(self) -> None:
        self._end_reading()
        self._wake()

    def _end_reading(self) -> None:
        for part in self._parts:
            if part.hosted.remote_reader is self:
                part.hosted.remote_reader = None

    def _wake(self) -> None:
        for part in self._parts:
            self._share_partitions.wake(part.hosted)
