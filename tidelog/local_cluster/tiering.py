"""Tiered storage for clusters on this machine: a directory is the object store of all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

TIER_FOLDER: Final = "tier"
TIERING_KEY: Final = "remote.log.storage.system.enable"
_REPLICAS_AT_MOST: Final = 3
_BACKEND_KEY: Final = "rsm.config.storage.backend.class"


def tiered_settings(folder: Path, nodes: int, node_settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with tiered storage enabled, overridden by `node_settings`.

    If `node_settings` has no backend, the objects are in `folder`/tier, which is created.
    """
    backend: dict[str, str] = {}
    if _BACKEND_KEY not in node_settings:
        tier = folder.absolute() / TIER_FOLDER
        tier.mkdir(parents=True, exist_ok=True)
        backend = {_BACKEND_KEY: "filesystem", "rsm.config.storage.root": str(tier)}
    return {
        TIERING_KEY: "true",
        **backend,
        **metadata_topic_settings(nodes),
        "remote.log.manager.task.interval.ms": "1000",
        "log.retention.check.interval.ms": "1000",
        **node_settings,
    }


def metadata_topic_settings(nodes: int) -> dict[str, str]:
    """Return settings of a small remote log metadata topic for `nodes` brokers.

    They are used only if tiered storage is enabled.
    """
    replicas = min(_REPLICAS_AT_MOST, nodes)
    return {
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
        "rlmm.config.remote.log.metadata.topic.min.isr": str(max(1, replicas - 1)),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    }


QUICK_TIERING: Final[Mapping[str, str]] = {
    "remote.log.manager.task.interval.ms": "100",
    "remote.log.manager.task.retry.backoff.ms": "50",
    "remote.log.manager.task.retry.backoff.max.ms": "500",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "100",
}
"""Short intervals for tests, so that segments are copied and deleted soon."""
