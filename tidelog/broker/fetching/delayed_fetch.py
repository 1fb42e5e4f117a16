"""A fetch request that waits for `min_bytes` of data, or for its time to be up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from tidelog.broker.fetching.fetch_read import FetchLimits, FetchRead, read_partitions, readable_partition
from tidelog.broker.fetching.read_checks import diverging_epoch
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.protocol.fetch_request_view import FetchPartition


class DelayedFetch(DelayedOperation):
    """Complete when enough can be read, when a partition answers with an error, or at the deadline.

    A follower's fetch completes as well when its log turns out to diverge from ours, or when there is a
    high watermark that it said it does not know.
    `requested` has the keys under which the operation is watched. `on_read` gets what is there at that
    moment; `on_failed` what kept it from being read.
    """

    def __init__(
        self,
        delay_ms: int,
        replicas: ReplicaManager,
        requested: Mapping[Hashable, FetchPartition],
        limits: FetchLimits,
        on_read: Callable[[FetchRead], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(requested))
        self._replicas = replicas
        self._requested = requested
        self._limits = limits
        self._readable: dict[Hashable, int] = {}
        """What each partition had when it was checked last."""
        self._readable_bytes = 0
        self._on_read: Callable[[FetchRead], None] | None = on_read
        self._on_failed: Callable[[Exception], None] | None = on_failed

    def try_complete(self) -> bool:
        """Answer if there is enough to read by now."""
        self._readable_bytes = 0
        for key, asked in self._requested.items():
            readable = self._check(asked)
            if readable is None:
                return self.force_complete()
            self._readable[key] = readable
            self._readable_bytes += readable
            if self._readable_bytes >= self._limits.min_bytes:
                return self.force_complete()
        return self._readable_bytes >= self._limits.min_bytes and self.force_complete()

    def try_complete_at(self, key: Hashable) -> bool:
        """Answer if there is enough to read now that one partition has changed.

        Only that partition is checked: a request for a thousand partitions would else make a thousand checks
        at each append to any of them. A throttled follower has all checked, since throttling ends with time.
        """
        asked = self._requested.get(key)
        if asked is None or self._limits.is_throttled is not None:
            return self.try_complete()
        readable = self._check(asked)
        if readable is None:
            return self.force_complete()
        self._readable_bytes += readable - self._readable[key]
        self._readable[key] = readable
        return self._readable_bytes >= self._limits.min_bytes and self.force_complete()

    def _check(self, asked: FetchPartition) -> int | None:
        """Return how many bytes of a partition count towards `min_bytes`; None: answer now."""
        limits = self._limits
        try:
            partition = readable_partition(self._replicas, asked, limits)
            if asked.fetch_offset > partition.log.log_end_offset:
                # The log was cut meanwhile.
                return None
            if limits.replica_id >= 0 and self._has_news(partition, asked):
                return None
            if asked.fetch_offset < partition.log.local_log_start_offset:
                if limits.replica_id >= 0 or asked.fetch_offset < partition.log.log_start_offset:
                    return None
                # In remote storage, from where this client may read nothing now; others have data.
                return 0
            upper_bound = partition.upper_bound(limits.isolation)
            readable = partition.log.readable_bytes(asked.fetch_offset, upper_bound)
        except Exception:
            # The read says what is wrong with this partition, and gives what others have.
            return None
        if readable and limits.is_throttled is not None and limits.is_throttled(partition, limits.replica_id):
            return 0
        return min(readable, asked.partition_max_bytes)

    @staticmethod
    def _has_news(partition: Partition, asked: FetchPartition) -> bool:
        """Whether a follower must hear of something that is no record."""
        if partition.log.high_watermark > asked.high_watermark:
            return True
        return diverging_epoch(partition, asked.last_fetched_epoch, asked.fetch_offset) is not None

    def on_complete(self) -> None:
        """Read and answer."""
        assert self._on_read is not None
        read = read_partitions(
            self._replicas, list(self._requested.values()), self._limits, is_recorded=False
        )
        self._on_read(read)

    def on_failure(self, error: Exception) -> None:
        """Answer that it cannot be read."""
        assert self._on_failed is not None
        self._on_failed(error)

    def release(self) -> None:
        """Drop the requested partitions and the callbacks, which refer to the request."""
        self._requested = {}
        self._readable = {}
        self._on_read = self._on_failed = None
