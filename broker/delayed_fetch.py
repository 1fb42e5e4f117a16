"""A fetch request that waits for `min_bytes` of data, or for its time to be up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.fetch_read import FetchLimits, FetchRead, led_partition, read_partitions
from broker.purgatory.purgatory import DelayedOperation
from broker.replica_manager import ReplicaManager
from protocol.errors import KafkaError
from protocol.fetch_view import FetchPartition


class DelayedFetch(DelayedOperation):
    """Complete when enough can be read, when a partition answers with an error, or at the deadline.

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
        super().__init__(delay_ms)
        self._replicas = replicas
        self._requested = requested
        self._limits = limits
        self._on_read = on_read
        self._on_failed = on_failed

    def try_complete(self) -> bool:
        """Answer if there is enough to read by now."""
        readable_bytes = 0
        for asked in self._requested:
            try:
                partition = led_partition(self._replicas, asked, self._limits.replica_id)
                upper_bound = partition.upper_bound(self._limits.isolation)
                readable = partition.log.readable_bytes(asked.fetch_offset, upper_bound)
            except KafkaError:
                return self.force_complete()
            readable_bytes += min(readable, asked.partition_max_bytes)
        if readable_bytes < self._limits.min_bytes:
            return False
        return self.force_complete()

    def on_complete(self) -> None:
        """Read and answer."""
        self._on_read(read_partitions(self._replicas, self._requested, self._limits))

    def on_failure(self, error: Exception) -> None:
        """Answer that it cannot be read."""
        self._on_failed(error)
