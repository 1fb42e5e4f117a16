"""The preferred read replica of a client: one in its own rack (KIP-392).

Only replicas in the ISR that have the offset are selected, and only on unfenced brokers that have the
client's listener (KAFKA-15390). Source: RackAwareReplicaSelector of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tidelog.base.config_definition import ConfigError
from tidelog.broker.partitions.partition import Partition
from tidelog.cluster.image import BrokerImage
from tidelog.cluster.replication.leader_positions import FollowerPosition
from tidelog.protocol.ids import BrokerId, Offset

ReplicaSelector: TypeAlias = Callable[
    [Partition, Offset, str, str, Mapping[BrokerId, BrokerImage]], BrokerId | None
]
"""Selects a replica from partition, offset, the client's rack, its listener and the brokers.

None means the leader."""

_PACKAGE: Final = "org.apache.kafka.common.replica."


def same_rack(
    partition: Partition, offset: Offset, rack: str, listener: str, brokers: Mapping[BrokerId, BrokerImage]
) -> BrokerId | None:
    """Return the follower in `rack` with the highest log end offset.

    None if the leader is in that rack, or if no follower there can serve the client.
    """
    leader = partition.leader
    assert leader is not None, "only a leader selects another replica"
    own = brokers.get(leader.broker_id)
    if own is not None and own.rack == rack:
        return None
    best: FollowerPosition | None = None
    for follower in leader.followers.values():
        if follower.broker_id not in leader.isr:
            continue
        if not follower.log_start_offset <= offset <= follower.log_end_offset:
            continue
        broker = brokers.get(follower.broker_id)
        if broker is None or broker.fenced or broker.rack != rack or listener not in broker.endpoints:
            continue
        if best is None or _progress(follower) > _progress(best):
            best = follower
    return None if best is None else best.broker_id


def _progress(follower: FollowerPosition) -> tuple[Offset, int, BrokerId]:
    return follower.log_end_offset, follower.last_caught_up_ms, follower.broker_id


_SELECTORS: Final[Mapping[str, ReplicaSelector | None]] = {
    _PACKAGE + "RackAwareReplicaSelector": same_rack,
    _PACKAGE + "LeaderSelector": None,
}


def find_selector(class_name: str | None) -> ReplicaSelector | None:
    """Return the selector of replica.selector.class; None if clients read from leaders.

    Errors: ConfigError for any other class than those of Apache Kafka.
    """
    if not class_name:
        return None
    if class_name not in _SELECTORS:
        allowed = " or ".join(_SELECTORS)
        raise ConfigError("replica.selector.class", class_name, f"allowed is {allowed}")
    return _SELECTORS[class_name]
