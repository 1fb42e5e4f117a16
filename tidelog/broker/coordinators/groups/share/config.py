"""The settings of share groups, of the broker and of each group."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.consumer.config import GroupSettings, limited
from tidelog.cluster.image import MetadataImage, ResourceType


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupConfig:
    """The settings; each field is the broker key of the same name with underscores for dots."""

    group_share_assignors: tuple[str, ...]
    group_share_max_size: int
    group_share_initialize_retry_interval_ms: int
    group_share_session_timeout_ms: int
    group_share_min_session_timeout_ms: int
    group_share_max_session_timeout_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_assignment_interval_ms: int
    group_share_min_assignment_interval_ms: int
    group_share_max_assignment_interval_ms: int


class ShareGroupSettings:
    """The settings of each group: the configs of the group within the limits of the broker."""

    def __init__(self, config: Callable[[], ShareGroupConfig], image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image

    @property
    def broker(self) -> ShareGroupConfig:
        """The settings of the broker."""
        return self._config()

    def of_group(self, group_id: str) -> GroupSettings:
        """Return the settings of a group. A config outside the limits of the broker counts as the limit."""
        config = self._config()
        own = self._image().configs.get((ResourceType.GROUP, group_id), {})
        return GroupSettings(
            limited(
                own,
                "share.session.timeout.ms",
                config.group_share_session_timeout_ms,
                config.group_share_min_session_timeout_ms,
                config.group_share_max_session_timeout_ms,
            ),
            limited(
                own,
                "share.heartbeat.interval.ms",
                config.group_share_heartbeat_interval_ms,
                config.group_share_min_heartbeat_interval_ms,
                config.group_share_max_heartbeat_interval_ms,
            ),
            limited(
                own,
                "share.assignment.interval.ms",
                config.group_share_assignment_interval_ms,
                config.group_share_min_assignment_interval_ms,
                config.group_share_max_assignment_interval_ms,
            ),
        )
