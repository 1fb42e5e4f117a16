"""The settings of share groups that concern deliveries: those of the broker, and those of single groups.

Source: ShareGroupConfig and GroupConfig of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.partitions.partition import FetchIsolation
from tidelog.broker.share_partitions.acquisition import DeliveryLimits
from tidelog.cluster.image import MetadataImage, ResourceType

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_DURATION: Final = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_MS_OF_UNIT: Final = (86_400_000, 3_600_000, 60_000, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareDeliveryConfig:
    """The settings; each field is the broker key of the same name with underscores for dots."""

    group_share_max_share_sessions: int
    group_share_delivery_count_limit: int
    group_share_min_delivery_count_limit: int
    group_share_max_delivery_count_limit: int
    group_share_partition_max_record_locks: int
    group_share_min_partition_max_record_locks: int
    group_share_max_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_min_record_lock_duration_ms: int
    group_share_max_record_lock_duration_ms: int


class ShareGroupSettings:
    """The settings of each share group: its configs within the limits of the broker."""

    def __init__(self, config: ShareDeliveryConfig, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image
        self._default_limits = self._limits({})

    def limits_of(self, group_id: str) -> DeliveryLimits:
        """Return what limits the deliveries to a group."""
        own = self._own(group_id)
        return self._limits(own) if own else self._default_limits

    def isolation_of(self, group_id: str) -> FetchIsolation:
        """Return which records a group receives."""
        is_committed = self._own(group_id).get("share.isolation.level") == "read_committed"
        return FetchIsolation.READ_COMMITTED if is_committed else FetchIsolation.READ_UNCOMMITTED

    def offset_reset_of(self, group_id: str) -> str:
        """Return where a group without a stored offset starts: latest, earliest or by_duration:…"""
        return self._own(group_id).get("share.auto.offset.reset", LATEST)

    def _own(self, group_id: str) -> Mapping[str, str]:
        return self._image().configs.get((ResourceType.GROUP, group_id), {})

    def _limits(self, own: Mapping[str, str]) -> DeliveryLimits:
        config = self._config
        return DeliveryLimits(
            delivery_count_max=_limited(
                own,
                "share.delivery.count.limit",
                config.group_share_delivery_count_limit,
                config.group_share_min_delivery_count_limit,
                config.group_share_max_delivery_count_limit,
            ),
            records_in_flight_max=_limited(
                own,
                "share.partition.max.record.locks",
                config.group_share_partition_max_record_locks,
                config.group_share_min_partition_max_record_locks,
                config.group_share_max_partition_max_record_locks,
            ),
            lock_duration_ms=_limited(
                own,
                "share.record.lock.duration.ms",
                config.group_share_record_lock_duration_ms,
                config.group_share_min_record_lock_duration_ms,
                config.group_share_max_record_lock_duration_ms,
            ),
            can_renew=own.get("share.renew.acknowledge.enable", "true").lower() == "true",
        )


def duration_ms(offset_reset: str) -> int:
    """Return the duration of by_duration:… in milliseconds."""
    match = _DURATION.fullmatch(offset_reset)
    assert match is not None, f"share.auto.offset.reset is {offset_reset}"
    return int(sum(float(part or 0) * ms for part, ms in zip(match.groups(), _MS_OF_UNIT, strict=True)))


def _limited(own: Mapping[str, str], key: str, default: int, lowest: int, highest: int) -> int:
    """Return the group's config `key` within the limits, or the default of the broker."""
    text = own.get(key)
    return default if text is None else min(max(int(text), lowest), highest)
