"""A fetch request that waits until `min_bytes` can be read, or until its delay has passed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.broker.fetching.fetch_read import FetchLimits, readable_partition
from tidelog.broker.fetching.read_checks import diverging_epoch
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.protocol.views.fetch_request_view import FetchPartition


@dataclass(slots=True)
class WaitingFetch:
    """The part of a fetch request that is needed while it waits."""

    replicas: ReplicaManager
    limits: FetchLimits
    requested: Mapping[Hashable, FetchPartition] = field(default_factory=dict)
    """The requested partitions by the keys under which the operation is watched."""


class DelayedFetch(DelayedOperation):
    """Completes when `min_bytes` can be read, when a partition has an error, or after the delay.

    A follower's fetch also completes if its log diverges from ours, or if it does not have the current high
    watermark. `on_ready` then reads the partitions and responds; `on_failed` responds with errors.
    A partition that has not been checked yet counts as one without data.
    """

    def __init__(
        self,
        delay_ms: int,
        fetch: WaitingFetch,
        on_ready: Callable[[], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(fetch.requested))
        self._replicas = fetch.replicas
        self._requested = fetch.requested
        self._limits = fetch.limits
        self._readable: dict[Hashable, int] = {}
        """The readable bytes of each partition at its last check."""
        self._readable_bytes = 0
        self._on_ready: Callable[[], None] | None = on_ready
        self._on_failed: Callable[[Exception], None] | None = on_failed

    def try_complete(self) -> bool:
        """Check all partitions, and complete if enough can be read."""
        self._readable_bytes = 0
        for key, requested in self._requested.items():
            readable = self._check(requested)
            if readable is None:
                return self.force_complete()
            self._readable[key] = readable
            self._readable_bytes += readable
            if self._readable_bytes >= self._limits.min_bytes:
                return self.force_complete()
        return self._readable_bytes >= self._limits.min_bytes and self.force_complete()

    def try_complete_at(self, key: Hashable) -> bool:
        """Check the partition at `key`, which has changed, and complete if enough can be read.

        A check of all partitions at each append would be expensive for a fetch of a thousand partitions. All
        partitions of a throttled follower's fetch are checked, because throttling ends with time.
        """
        requested = self._requested.get(key)
        if requested is None or self._limits.is_throttled is not None:
            return self.try_complete()
        return self.check_one(key, requested)

    def check_one(self, key: Hashable, requested: FetchPartition) -> bool:
        """Check one partition, and complete if enough can be read."""
        readable = self._check(requested)
        if readable is None:
            return self.force_complete()
        self._readable_bytes += readable - self._readable.get(key, 0)
        self._readable[key] = readable
        return self._readable_bytes >= self._limits.min_bytes and self.force_complete()

    def _check(self, requested: FetchPartition) -> int | None:
        """Return how many bytes of a partition count towards `min_bytes`; None if the fetch must complete."""
        limits = self._limits
        try:
            partition = readable_partition(self._replicas, requested, limits)
            if requested.fetch_offset > partition.log.log_end_offset:
                # The log was truncated while the fetch waited.
                return None
            if limits.replica_id >= 0 and self._must_update_follower(partition, requested):
                return None
            if requested.fetch_offset < partition.log.local_log_start_offset:
                if limits.replica_id >= 0 or requested.fetch_offset < partition.log.log_start_offset:
                    return None
                # The offset is in remote storage, which this client may not read now. Others may get data.
                return 0
            upper_bound = partition.upper_bound(limits.isolation)
            readable = partition.log.readable_bytes(requested.fetch_offset, upper_bound)
        except Exception:
            # The read that follows reports this partition's error, and returns the data of the others.
            return None
        if readable and limits.is_throttled is not None and limits.is_throttled(partition, limits.replica_id):
            return 0
        return min(readable, requested.partition_max_bytes)

    @staticmethod
    def _must_update_follower(partition: Partition, requested: FetchPartition) -> bool:
        """Return whether a follower must get a new high watermark or a diverging epoch."""
        if partition.log.high_watermark > requested.high_watermark:
            return True
        return diverging_epoch(partition, requested.last_fetched_epoch, requested.fetch_offset) is not None

    def on_complete(self) -> None:
        """Read the partitions and respond, by `on_ready`."""
        assert self._on_ready is not None
        self._on_ready()

    def on_failure(self, error: Exception) -> None:
        """Respond with errors."""
        assert self._on_failed is not None
        self._on_failed(error)

    def release(self) -> None:
        """Drop the requested partitions and the callbacks, which refer to the request."""
        self._requested = {}
        self._readable = {}
        self._on_ready = self._on_failed = None
