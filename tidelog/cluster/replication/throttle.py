"""The replication quota: a limit on the bytes per second of throttled replicas.

It prevents a reassignment from slowing down clients.

The throttled replicas are a config of the topic, the rate is a config of the broker. Both exist separately
for leaders and followers. The rate is measured over the last windows (replication.quota.window.num of
replication.quota.window.size.seconds). The current window counts as a whole one, so that a burst is detected
at once.

Units: monotonic ms. I/O: none. Source: ReplicationQuotaManager and SimpleRate of Apache Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from tidelog.protocol.ids import BrokerId, TopicPartition

_ALL = "*"


def throttled_indices(replicas: Iterable[str], broker_id: BrokerId) -> frozenset[int] | None:
    """Return the partitions that are throttled on `broker_id`; None means all.

    `replicas`: the items of the topic config, each `partition:broker` or `*`.
    """
    indices: set[int] = set()
    for replica in replicas:
        if replica == _ALL:
            return None
        partition, _, broker = replica.partition(":")
        if int(broker) == broker_id:
            indices.add(int(partition))
    return frozenset(indices)


class ReplicationQuota:
    """The rate of one direction and the partitions that share it; a rate of None means no limit.

    With `covers_all` all partitions share the rate, as those do that are moved between log directories.
    """

    def __init__(self, *, window_ms: int, window_count: int, covers_all: bool = False) -> None:
        self._covers_all = covers_all
        self.rate: int | None = None
        self._window_ms = window_ms
        self._window_count = window_count
        self._throttled: dict[str, frozenset[int] | None] = {}
        self._windows: deque[list[int]] = deque()
        """Start and bytes of each window, oldest first."""

    def set_rate(self, rate: int | None) -> None:
        """Limit the throttled partitions to `rate` bytes per second; None means no limit."""
        self.rate = rate

    def set_throttled(self, throttled: Mapping[str, frozenset[int] | None]) -> None:
        """Set the partitions that share the rate, by topic; None means all partitions of a topic."""
        self._throttled = {topic: indices for topic, indices in throttled.items() if indices != frozenset()}

    def set_topic(self, topic: str, indices: frozenset[int] | None) -> None:
        """Set the partitions of one topic that share the rate; None means all."""
        self.set_throttled({**self._throttled, topic: indices})

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        """Return whether the partition is throttled."""
        if not self._throttled:
            return self._covers_all
        indices = self._throttled.get(topic_partition.topic, frozenset())
        return indices is None or topic_partition.partition in indices

    def record(self, topic_partition: TopicPartition, size_bytes: int, now_ms: int) -> None:
        """Count the bytes of a throttled partition."""
        if not size_bytes or not self.is_throttled(topic_partition):
            return
        windows = self._windows
        if not windows or now_ms - windows[-1][0] >= self._window_ms:
            windows.append([now_ms, 0])
        windows[-1][1] += size_bytes
        self._expire(now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether the windows together exceed the rate."""
        if self.rate is None or not (self._throttled or self._covers_all):
            return False
        return self.bytes_per_s(now_ms) > self.rate

    def bytes_per_s(self, now_ms: int) -> float:
        """Return the rate of the throttled partitions over the windows."""
        self._expire(now_ms)
        if not self._windows:
            return 0.0
        elapsed_ms = max(now_ms - self._windows[0][0], self._window_ms)
        return sum(size_bytes for _, size_bytes in self._windows) * 1_000 / elapsed_ms

    def _expire(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._window_ms * self._window_count
        while self._windows and self._windows[0][0] <= oldest_ms:
            self._windows.popleft()
