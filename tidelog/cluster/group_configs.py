"""The group configs of Kafka 4.3, and the broker configs that limit them.

The broker config in `synonyms` is the default.

Source: GroupConfig and GroupConfigManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tidelog.base.config_definition import ConfigDefinition, ConfigKind, ConfigValue, Synonym, table


class GroupLimits(NamedTuple):
    """The broker configs that limit a group config from below and from above; None if there is no limit."""

    lowest: str | None
    highest: str | None


_DURATION: Final = re.compile(
    r"by_duration:P(?=.)([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?", re.IGNORECASE
)


def _share_offset_reset(value: ConfigValue) -> str | None:
    assert isinstance(value, str)
    if value in ("latest", "earliest") or _DURATION.fullmatch(value):
        return None
    return "must be latest, earliest, or by_duration: followed by an ISO 8601 duration in days to seconds"


def _number(key: str, default: int, minimum: int, documentation: str) -> ConfigDefinition:
    return _group(
        key, ConfigKind.INT, default, documentation, minimum=minimum, synonyms=(Synonym(f"group.{key}"),)
    )


def _group(
    key: str, kind: ConfigKind, default: ConfigValue, documentation: str, **limits: Any
) -> ConfigDefinition:
    return ConfigDefinition(key=key, kind=kind, default=default, documentation=documentation, **limits)


_SESSION: Final = "The time in milliseconds without a heartbeat after which a member is removed."
_HEARTBEAT: Final = "The interval in milliseconds at which members send heartbeats."
_ASSIGNMENT: Final = "The minimum time in milliseconds between two assignments of the group."

GROUP_CONFIGS: Final[Mapping[str, ConfigDefinition]] = table(
    (
        _number("consumer.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
        _number("consumer.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
        _number("consumer.session.timeout.ms", 45_000, 1, _SESSION),
        _number("share.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
        _group(
            "share.auto.offset.reset",
            ConfigKind.STRING,
            "latest",
            "The offset at which a share group without an offset starts: latest, earliest, or "
            "by_duration: followed by an ISO 8601 duration.",
            check=_share_offset_reset,
        ),
        _number("share.delivery.count.limit", 5, 2, "The maximum number of deliveries of a record."),
        _number("share.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
        _group(
            "share.isolation.level",
            ConfigKind.STRING,
            "read_uncommitted",
            "Whether a share group receives records of open and aborted transactions "
            "(read_uncommitted) or only of committed ones (read_committed).",
            valid_values=("read_committed", "read_uncommitted"),
        ),
        _number(
            "share.partition.max.record.locks",
            2000,
            100,
            "The maximum number of acquired records of a partition.",
        ),
        _number(
            "share.record.lock.duration.ms",
            30_000,
            1000,
            "The time in milliseconds for which a member acquires a record.",
        ),
        _group(
            "share.renew.acknowledge.enable",
            ConfigKind.BOOLEAN,
            True,
            "Whether a member can extend the time for which it has acquired a record.",
        ),
        _number("share.session.timeout.ms", 45_000, 1, _SESSION),
        _number("streams.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
        _number("streams.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
        _number(
            "streams.initial.rebalance.delay.ms",
            3000,
            0,
            "The time in milliseconds that the coordinator waits for more members before the first "
            "rebalance.",
        ),
        _number("streams.num.standby.replicas", 0, 0, "The number of standby replicas of each streams task."),
        _number("streams.session.timeout.ms", 45_000, 1, _SESSION),
    )
)


def limits_of(key: str) -> GroupLimits:
    """Return the broker configs that limit the group config `key`."""
    kind, _, setting = key.partition(".")
    if key == "streams.num.standby.replicas":
        return GroupLimits(None, "group.streams.max.standby.replicas")
    if setting in _BOUNDED_SETTINGS:
        return GroupLimits(f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}")
    return GroupLimits(None, None)


_BOUNDED_SETTINGS: Final = frozenset(
    {
        "assignment.interval.ms",
        "heartbeat.interval.ms",
        "session.timeout.ms",
        "delivery.count.limit",
        "partition.max.record.locks",
        "record.lock.duration.ms",
    }
)
