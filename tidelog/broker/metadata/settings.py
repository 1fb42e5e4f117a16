"""The configuration of the controller, from the node's configuration."""

from __future__ import annotations

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.descriptor_budget import process_budget
from tidelog.cluster.controller.settings import ControllerSettings


def controller_settings(config: BrokerConfig) -> ControllerSettings:
    """Return the settings of this node's controller."""
    return ControllerSettings(
        node_id=config.node_id,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        delete_topic_enable=config.delete_topic_enable,
        remote_storage_system_enable=config.remote_log_storage_system_enable,
        partitions_per_broker_max=process_budget().partitions_max,
        static_configs=config.explicit,
        group_limits={key: value for key, value in config.values.items() if key.startswith("group.")},
    )
