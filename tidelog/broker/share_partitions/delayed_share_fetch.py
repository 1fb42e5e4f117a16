"""A ShareFetch that waits until `min_bytes` can be acquired, or until its delay has passed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.broker.share_partitions.registry import HostedSharePartition
from tidelog.broker.share_partitions.share_read import ShareFetchLimits, readable_bytes
from tidelog.protocol.errors import KafkaError


class DelayedShareFetch(DelayedOperation):
    """Completes when enough can be acquired, when a share partition has an error, or after the delay.

    It is watched under the keys of its share partitions, because acknowledgements and expired locks make
    records available, and under their partitions, to which records are appended. `on_ready` reads and
    responds; `on_failed` responds with an error.
    """

    def __init__(
        self,
        delay_ms: int,
        partitions: Sequence[HostedSharePartition],
        limits: ShareFetchLimits,
        on_ready: Callable[[], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(partitions))
        self._limits = limits
        self._bytes_of_each = limits.bytes_of_each(len(partitions))
        self._by_key: dict[Hashable, HostedSharePartition] = {}
        for hosted in partitions:
            self._by_key[hosted.key] = self._by_key[hosted.partition.topic_partition] = hosted
        self._partitions = partitions
        self._readable: dict[HostedSharePartition, int] = {}
        """The readable bytes of each share partition at its last check; absent if none can be acquired."""
        self._readable_bytes = 0
        self._on_ready: Callable[[], None] | None = on_ready
        self._on_failed: Callable[[Exception], None] | None = on_failed

    @property
    def keys(self) -> Sequence[Hashable]:
        """The keys under which the operation is watched."""
        return list(self._by_key)

    def try_complete(self) -> bool:
        """Check all share partitions, and complete if enough can be acquired."""
        for hosted in self._partitions:
            if self._check(hosted):
                return self.force_complete()
        return False

    def try_complete_at(self, key: Hashable) -> bool:
        """Check the share partition at `key`, which has changed, and complete if enough can be acquired."""
        hosted = self._by_key.get(key)
        if hosted is None:
            return self.try_complete()
        return self._check(hosted) and self.force_complete()

    def _check(self, hosted: HostedSharePartition) -> bool:
        """Return whether the operation can complete, with what is known of the other share partitions."""
        try:
            readable = readable_bytes(hosted, self._limits)
        except KafkaError:
            return True
        self._readable_bytes -= self._readable.pop(hosted, 0)
        if readable is None:
            return False
        self._readable[hosted] = min(readable, self._bytes_of_each)
        self._readable_bytes += self._readable[hosted]
        return self._readable_bytes >= self._limits.min_bytes

    def on_complete(self) -> None:
        """Read and respond, by `on_ready`."""
        assert self._on_ready is not None
        self._on_ready()

    def on_failure(self, error: Exception) -> None:
        """Respond with an error."""
        assert self._on_failed is not None
        self._on_failed(error)

    def release(self) -> None:
        """Drop the partitions and the callbacks, which refer to the request."""
        self._partitions = ()
        self._by_key = {}
        self._readable = {}
        self._on_ready = self._on_failed = None
