"""The settings of the controller's commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tidelog.base.config_definition import ConfigValue
from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The configs of the controller's own node at its start.

    `static_configs`: the values of server.properties as text; `group_limits`: the parsed values of its
    `group.*` keys, which limit the configs of groups.
    """

    node_id: BrokerId
    num_partitions: int
    default_replication_factor: int
    delete_topic_enable: bool
    remote_storage_system_enable: bool
    partitions_per_broker_max: int | None = None
    """The limit of partitions per broker, derived from the limit of open files; None if that is unknown."""
    static_configs: Mapping[str, str] = field(default_factory=dict)
    group_limits: Mapping[str, ConfigValue] = field(default_factory=dict)
