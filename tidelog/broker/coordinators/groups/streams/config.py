"""The settings of streams groups, of the broker and of each group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.groups.consumer.config import limited
from tidelog.cluster.image import MetadataImage, ResourceType


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupConfig:
    """The settings; each field is the broker key of the same name with underscores for dots."""

    group_streams_max_size: int
    group_streams_session_timeout_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_min_assignment_interval_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_num_standby_replicas: int
    group_streams_max_standby_replicas: int


class StreamsSettings(NamedTuple):
    """The settings of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    standby_replicas: int

    @property
    def assignment_configs(self) -> Mapping[str, str]:
        """The settings of the assignor, as they are recorded."""
        return {"num.standby.replicas": str(self.standby_replicas)}


class StreamsGroupSettings:
    """The settings of each group: the configs of the group within the limits of the broker."""

    def __init__(self, config: Callable[[], StreamsGroupConfig], image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image

    @property
    def broker(self) -> StreamsGroupConfig:
        """The settings of the broker."""
        return self._config()

    def of_group(self, group_id: str) -> StreamsSettings:
        """Return the settings of a group. A config outside the limits of the broker counts as the limit."""
        config = self._config()
        own = self._image().configs.get((ResourceType.GROUP, group_id), {})
        delay_ms = own.get("streams.initial.rebalance.delay.ms")
        return StreamsSettings(
            limited(
                own,
                "streams.session.timeout.ms",
                config.group_streams_session_timeout_ms,
                config.group_streams_min_session_timeout_ms,
                config.group_streams_max_session_timeout_ms,
            ),
            limited(
                own,
                "streams.heartbeat.interval.ms",
                config.group_streams_heartbeat_interval_ms,
                config.group_streams_min_heartbeat_interval_ms,
                config.group_streams_max_heartbeat_interval_ms,
            ),
            limited(
                own,
                "streams.assignment.interval.ms",
                config.group_streams_assignment_interval_ms,
                config.group_streams_min_assignment_interval_ms,
                config.group_streams_max_assignment_interval_ms,
            ),
            config.group_streams_initial_rebalance_delay_ms if delay_ms is None else int(delay_ms),
            limited(
                own,
                "streams.num.standby.replicas",
                config.group_streams_num_standby_replicas,
                0,
                config.group_streams_max_standby_replicas,
            ),
        )
