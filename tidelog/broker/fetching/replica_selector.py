"""Which replica a client had better read from: one in its own rack (KIP-392).

Only replicas in the ISR that hold the offset are named, and only brokers that are alive and listen where
the client came in (KAFKA-15390). Source: RackAwareReplicaSelector of Apache Kafka.
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
"""Partition, offset, the client's rack, its listener, the brokers; None stands for the leader."""

_PACKAGE: Final = "org.apache.kafka.common.replica."


def same_rack(
    partition: Partition, offset: Offset, rack: str, listener: str, brokers: Mapping[BrokerId, BrokerImage]
) -> BrokerId | None:
    """The follower in `rack` that is furthest; None when the leader is there, or nobody who can serve."""
    leader = partition.leader
    assert leader is not None, "only a leader sends readers elsewhere"
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


def selector_named(class_name: str | None) -> ReplicaSelector | None:
    """The selector that replica.selector.class asks for, None for reading from leaders.

    Errors: ConfigError for a class that is not Kafka's own.
    """
    if not class_name:
        return None
    if class_name not in _SELECTORS:
        allowed = " or ".join(_SELECTORS)
        raise ConfigError("replica.selector.class", class_name, f"allowed is {allowed}")
    return _SELECTORS[class_name]
