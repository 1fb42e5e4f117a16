"""The settings of Fetch on this node: limits, preferred read replicas, throttling, remote storage.

Source: KIP-392 (reading from followers), KIP-73 (replication quotas).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.fetching.fetch_read import PreferredReplica
from tidelog.broker.fetching.remote_fetch import RemoteAccess
from tidelog.broker.fetching.replica_selector import ReplicaSelector
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.image import BrokerImage
from tidelog.cluster.replication.throttle import ReplicationQuota
from tidelog.protocol.ids import BrokerId, Offset
from tidelog.protocol.views.fetch_response_view import FetchResult


@dataclass(frozen=True, slots=True)
class PreferredReadReplicas:
    """Selects the replica that a client should read from; `brokers` returns the brokers of the cluster."""

    selector: ReplicaSelector
    brokers: Callable[[], Mapping[BrokerId, BrokerImage]]

    def for_client(self, rack: str, listener: str) -> PreferredReplica:
        """Return the function that selects the replica for a client in `rack` that uses `listener`."""

        def select_replica(partition: Partition, offset: Offset) -> BrokerId | None:
            return self.selector(partition, offset, rack, listener, self.brokers())

        return select_replica


@dataclass(frozen=True, slots=True)
class FollowerThrottle:
    """Limits what followers of throttled replicas read (KIP-73)."""

    quota: ReplicationQuota
    clock: Clock

    @property
    def is_active(self) -> bool:
        """Whether a rate is configured."""
        return self.quota.rate is not None

    def is_throttled(self, partition: Partition, broker: BrokerId) -> bool:
        """Return whether a follower must wait. Followers in the ISR never wait, so that they stay in it."""
        leader = partition.leader
        return (
            leader is not None
            and broker not in leader.isr
            and self.quota.is_throttled(partition.topic_partition)
            and self.quota.is_exceeded(self.clock.monotonic_ms())
        )

    def record(self, results: Iterable[FetchResult], replicas: ReplicaManager) -> None:
        """Count the bytes that followers of throttled replicas get."""
        now_ms = self.clock.monotonic_ms()
        for requested, result in results:
            if result.records_length:
                name = replicas.resolve(requested.topic, requested.topic_id, requested.partition)
                self.quota.record(name, result.records_length, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """The broker's fetch.max.bytes, the slices of large requests, and optional parts."""

    max_bytes: int
    slices: Slices
    preferred_read_replicas: PreferredReadReplicas | None = None
    throttle: FollowerThrottle | None = None
    remote: RemoteAccess | None = None
    authorizer: Authorizer
