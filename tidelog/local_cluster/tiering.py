"""Tiered storage for clusters of this machine: a directory stands for the object store of all nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TIER_FOLDER: Final = "tier"
_REPLICAS_AT_MOST: Final = 3


def tiered_settings(folder: Path, nodes: int) -> dict[str, str]:
    """Settings that switch tiered storage on, with objects below `folder`/tier, which is made."""
    tier = folder.absolute() / TIER_FOLDER
    tier.mkdir(parents=True, exist_ok=True)
    replicas = min(_REPLICAS_AT_MOST, nodes)
    return {
        "remote.log.storage.system.enable": "true",
        "rsm.config.storage.backend.class": "filesystem",
        "rsm.config.storage.root": str(tier),
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
        "rlmm.config.remote.log.metadata.topic.min.isr": str(max(1, replicas - 1)),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
        "remote.log.manager.task.interval.ms": "1000",
        "log.retention.check.interval.ms": "1000",
    }


def hurried_settings() -> dict[str, str]:
    """What a test has over these, so that it does not wait for segments to move."""
    return {
        "remote.log.manager.task.interval.ms": "100",
        "remote.log.manager.task.retry.backoff.ms": "50",
        "remote.log.manager.task.retry.backoff.max.ms": "500",
        "log.retention.check.interval.ms": "100",
        "log.segment.delete.delay.ms": "100",
    }
