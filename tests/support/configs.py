"""Component settings for tests: the defaults of the keys, with changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.projection import projection
from tidelog.broker.config.quorum_config import quorum_settings as configured_quorum_settings
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupConfig
from tidelog.broker.coordinators.groups.share.config import ShareGroupConfig
from tidelog.broker.coordinators.groups.streams.config import StreamsGroupConfig
from tidelog.broker.coordinators.share.config import ShareCoordinatorConfig
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.metadata.settings import controller_settings as configured_controller_settings
from tidelog.broker.metadata.snapshotter import SnapshotSettings
from tidelog.broker.network.config import UNLIMITED, ListenerConfig, NetworkConfig
from tidelog.broker.raft.log import MetadataLogConfig
from tidelog.broker.registration.broker_lifecycle import LifecycleSettings
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.quorum.settings import QuorumSettings
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG

_DEFAULTS = BrokerConfig({"node.id": "1"})
PRODUCER_ID_EXPIRATION_MS = _DEFAULTS.producer_id_expiration_ms
LAG_TIME_MAX_MS = _DEFAULTS.replica_lag_time_max_ms


def log_config(**changes: Any) -> LogConfig:
    """Return the settings of a topic."""
    return replace(DEFAULT_LOG_CONFIG, **changes)


def group_config(**changes: Any) -> GroupConfig:
    """Return the settings of the group coordinator."""
    return projection(_DEFAULTS, GroupConfig, **changes)


def consumer_group_config(**changes: Any) -> ConsumerGroupConfig:
    """Return the settings of consumer groups."""
    return projection(_DEFAULTS, ConsumerGroupConfig, **changes)


def share_group_config(**changes: Any) -> ShareGroupConfig:
    """Return the settings of share groups."""
    return projection(_DEFAULTS, ShareGroupConfig, **changes)


def streams_group_config(**changes: Any) -> StreamsGroupConfig:
    """Return the settings of streams groups."""
    return projection(_DEFAULTS, StreamsGroupConfig, **changes)


def transaction_config(**changes: Any) -> TransactionConfig:
    """Return the settings of the transaction coordinator."""
    return projection(_DEFAULTS, TransactionConfig, **changes)


def share_coordinator_config(**changes: Any) -> ShareCoordinatorConfig:
    """Return the settings of the share coordinator."""
    return projection(_DEFAULTS, ShareCoordinatorConfig, **changes)


def network_config(**changes: Any) -> NetworkConfig:
    """Return the settings of the sockets, without an inter-broker listener."""
    others: dict[str, Any] = {"max_connections_per_ip_overrides": {}, "inter_broker_listener": ""}
    return projection(_DEFAULTS, NetworkConfig, **{**others, **changes})


def listener_config(name: str = "PLAINTEXT", **changes: Any) -> ListenerConfig:
    """Return the settings of a listener on a free port of every address."""
    defaults: dict[str, Any] = {
        "host": "",
        "port": 0,
        "max_connections": UNLIMITED,
        "max_connection_creation_rate": UNLIMITED,
    }
    return ListenerConfig(**{"name": name, **defaults, **changes})


def quorum_settings(**changes: Any) -> QuorumSettings:
    """Return the settings of the metadata quorum."""
    return replace(configured_quorum_settings(_DEFAULTS), **changes)


def controller_settings(**changes: Any) -> ControllerSettings:
    """Return the settings of the controller of node 1, without a limit of partitions and static configs."""
    unset: dict[str, Any] = {"partitions_per_broker_max": None, "static_configs": {}, "group_limits": {}}
    return replace(configured_controller_settings(_DEFAULTS), **{**unset, **changes})


def metadata_log_config(**changes: Any) -> MetadataLogConfig:
    """Return the settings of the metadata log."""
    return projection(_DEFAULTS, MetadataLogConfig, **changes)


def snapshot_settings(**changes: Any) -> SnapshotSettings:
    """Return the settings of metadata snapshots."""
    return projection(_DEFAULTS, SnapshotSettings, **changes)


def lifecycle_settings(**changes: Any) -> LifecycleSettings:
    """Return the settings of a broker's registration and heartbeats."""
    return projection(_DEFAULTS, LifecycleSettings, **changes)
