"""A fetch request that waits for `min_bytes` of data, or for its time to be up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.fetch_read import FetchLimits, FetchRead, read_partitions, readable_partition
from broker.partition import Partition
from broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from broker.replica_manager import ReplicaManager
from protocol.fetch_view import FetchPartition


class DelayedFetch(DelayedOperation):
    """Complete when enough can be read, when a partition answers with an error, or at the deadline.

    A follower's fetch completes as well when its log turns out to diverge from ours, or when there is a
    high watermark that it said it does not know.
    `on_read` gets what is there at that moment; `on_failed` what kept it from being read.
    """

    def __init__(
        self,
        delay_ms: int,
        replicas: ReplicaManager,
        requested: Sequence[FetchPartition],
        limits: FetchLimits,
        on_read: Callable[[FetchRead], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(requested))
        self._replicas = replicas
        self._requested = requested
        self._limits = limits
        self._on_read: Callable[[FetchRead], None] | None = on_read
        self._on_failed: Callable[[Exception], None] | None = on_failed

    def try_complete(self) -> bool:
        """Answer if there is enough to read by now."""
        limits = self._limits
        readable_bytes = 0
        for asked in self._requested:
            try:
                partition = readable_partition(self._replicas, asked, limits)
                if asked.fetch_offset > partition.log.log_end_offset:
                    # The log was cut meanwhile.
                    return self.force_complete()
                if limits.replica_id >= 0 and self._has_news(partition, asked):
                    return self.force_complete()
                if asked.fetch_offset < partition.log.local_log_start_offset:
                    if limits.replica_id >= 0 or asked.fetch_offset < partition.log.log_start_offset:
                        return self.force_complete()
                    # In remote storage, from where this client may read nothing now; others have data.
                    continue
                upper_bound = partition.upper_bound(limits.isolation)
                readable = partition.log.readable_bytes(asked.fetch_offset, upper_bound)
            except Exception:
                # The read says what is wrong with this partition, and gives what others have.
                return self.force_complete()
            if (
                readable
                and limits.is_throttled is not None
                and limits.is_throttled(partition, limits.replica_id)
            ):
                continue
            readable_bytes += min(readable, asked.partition_max_bytes)
            if readable_bytes >= limits.min_bytes:
                return self.force_complete()
        return readable_bytes >= limits.min_bytes and self.force_complete()

    @staticmethod
    def _has_news(partition: Partition, asked: FetchPartition) -> bool:
        """Whether a follower must hear of something that is no record."""
        if partition.log.high_watermark > asked.high_watermark:
            return True
        return partition.diverging_epoch(asked.last_fetched_epoch, asked.fetch_offset) is not None

    def on_complete(self) -> None:
        """Read and answer."""
        assert self._on_read is not None
        read = read_partitions(self._replicas, self._requested, self._limits, is_recorded=False)
        self._on_read(read)

    def on_failure(self, error: Exception) -> None:
        """Answer that it cannot be read."""
        assert self._on_failed is not None
        self._on_failed(error)

    def release(self) -> None:
        """Drop the requested partitions and the callbacks, which refer to the request."""
        self._requested = ()
        self._on_read = self._on_failed = None
