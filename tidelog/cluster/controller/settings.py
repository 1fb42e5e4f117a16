"""What the controller's commands need to know of their node, and where their chance comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.base.config_definition import ConfigValue
from tidelog.protocol.ids import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The controller's own configs, as given when it started.

    `static_configs`: the texts of server.properties; `group_limits`: parsed values of its
    `group.*` keys, which bound what a group may choose.
    """

    node_id: BrokerId
    num_partitions: int
    default_replication_factor: int
    delete_topic_enable: bool
    remote_storage_system_enable: bool
    partitions_per_broker_max: int | None = None
    """How many partitions a broker can hold with the descriptors it has; None: no limit is known."""
    static_configs: Mapping[str, str] = field(default_factory=dict)
    group_limits: Mapping[str, ConfigValue] = field(default_factory=dict)
