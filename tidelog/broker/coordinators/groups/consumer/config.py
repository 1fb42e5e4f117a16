"""The settings of consumer groups: those of the broker, and those of single groups.

Source: GroupCoordinatorConfig and GroupConfig of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.cluster.image import MetadataImage, ResourceType


class MigrationPolicy(Enum):
    """The allowed conversions of groups with members, by the value of `group.consumer.migration.policy`."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupConfig:
    """The settings; each field is the broker key of the same name with underscores for dots."""

    group_consumer_assignors: tuple[str, ...]
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int

    @property
    def migration_policy(self) -> MigrationPolicy:
        """`group.consumer.migration.policy`, which ignores case."""
        return MigrationPolicy(self.group_consumer_migration_policy.lower())


class GroupSettings(NamedTuple):
    """The settings of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class ConsumerGroupSettings:
    """The settings of each group: the configs of the group within the limits of the broker.

    `config` returns the current config of the broker: the assignment interval can change at run time.
    """

    def __init__(self, config: Callable[[], ConsumerGroupConfig], image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image
        self._cached: tuple[ConsumerGroupConfig, GroupSettings] | None = None
        """The config of the broker, and the settings of groups without configs of their own."""

    @property
    def broker(self) -> ConsumerGroupConfig:
        """The settings of the broker."""
        return self._config()

    @property
    def default_assignor(self) -> str:
        """The assignor of groups whose members request none."""
        return self._config().group_consumer_assignors[0]

    def of_group(self, group_id: str) -> GroupSettings:
        """Return the settings of a group. A config outside the limits of the broker counts as the limit."""
        own = self._image().configs.get((ResourceType.GROUP, group_id))
        return self._limited(own) if own else self._defaults()

    def _defaults(self) -> GroupSettings:
        """Return the settings of a group without configs of its own."""
        config = self._config()
        if self._cached is None or self._cached[0] is not config:
            self._cached = config, self._limited({})
        return self._cached[1]

    def _limited(self, own: Mapping[str, str]) -> GroupSettings:
        config = self._config()
        return GroupSettings(
            limited(
                own,
                "consumer.session.timeout.ms",
                config.group_consumer_session_timeout_ms,
                config.group_consumer_min_session_timeout_ms,
                config.group_consumer_max_session_timeout_ms,
            ),
            limited(
                own,
                "consumer.heartbeat.interval.ms",
                config.group_consumer_heartbeat_interval_ms,
                config.group_consumer_min_heartbeat_interval_ms,
                config.group_consumer_max_heartbeat_interval_ms,
            ),
            limited(
                own,
                "consumer.assignment.interval.ms",
                config.group_consumer_assignment_interval_ms,
                config.group_consumer_min_assignment_interval_ms,
                config.group_consumer_max_assignment_interval_ms,
            ),
        )


def limited(own: Mapping[str, str], key: str, default: int, lowest: int, highest: int) -> int:
    """Return the group's config `key` within the limits, or the default of the broker."""
    text = own.get(key)
    return default if text is None else min(max(int(text), lowest), highest)
