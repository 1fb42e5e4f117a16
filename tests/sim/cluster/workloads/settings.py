"""The workloads that a seed may select, and the settings of the nodes that each needs."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from tidelog.cluster.features import BOOTSTRAP_LEVELS, METADATA_VERSION

WORKLOAD_SHARE: Final = 0.12
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    # First, because others need the newest levels for their checks.
    "features": {},
    "recreation": {"log.segment.delete.delay.ms": "1000"},
    "reassignments": {"log.segment.delete.delay.ms": "1000"},
    "configs": {},
    "retention": {"log.retention.check.interval.ms": "1000", "log.segment.delete.delay.ms": "1000"},
    "compaction": {"log.cleaner.backoff.ms": "500", "log.segment.delete.delay.ms": "1000"},
    "tiering": {
        "remote.log.storage.system.enable": "true",
        "remote.log.manager.task.interval.ms": "500",
        "remote.log.manager.task.retry.backoff.ms": "100",
        "remote.log.manager.task.retry.backoff.max.ms": "2000",
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
        "rsm.config.storage.backend.class": "filesystem",
        "rsm.config.chunk.size": "512",
    },
    "share_group": {
        "share.coordinator.state.topic.num.partitions": "2",
        "group.share.min.record.lock.duration.ms": "2000",
        "group.share.min.session.timeout.ms": "6000",
        "group.share.session.timeout.ms": "6000",
        "group.share.min.heartbeat.interval.ms": "1000",
        "group.share.heartbeat.interval.ms": "1000",
    },
    "rolling_restarts": {},
    "voters": {},
}
LOWEST_METADATA_VERSION: Final = 20


def workloads_of(random: Random) -> tuple[str, ...]:
    """Return a random part of the workloads."""
    return tuple(name for name in SETTINGS if random.random() < WORKLOAD_SHARE)


def first_levels(random: Random) -> dict[str, int]:
    """Return the feature levels of a cluster before its upgrade."""
    levels = {name: random.randint(0, level) for name, level in BOOTSTRAP_LEVELS.items()}
    levels[METADATA_VERSION] = random.randint(LOWEST_METADATA_VERSION, BOOTSTRAP_LEVELS[METADATA_VERSION])
    return {name: level for name, level in levels.items() if level}
