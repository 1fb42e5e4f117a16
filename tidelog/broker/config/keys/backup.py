"""Tidelog's own keys: backups of the cluster in the bucket of tiered storage."""

from __future__ import annotations

from tidelog.broker.config.keys.key import long


class BackupKeys:
    """Backups of the cluster's metadata and of committed offsets."""

    tidelog_backup_interval_ms = long(
        "tidelog.backup.interval.ms",
        -1,
        "The time in milliseconds between two backups of the cluster's metadata and of committed offsets, "
        "which the active controller writes to the bucket of tiered storage (rsm.config.). A backup contains "
        "the keys of SCRAM users. -1 means none.",
        minimum=-1,
        check=lambda value: "allowed is -1 or at least 1000" if value in range(1000) else None,
    )
    tidelog_backup_retention_ms = long(
        "tidelog.backup.retention.ms",
        604_800_000,
        "The time in milliseconds after which a backup is deleted. The newest one is never deleted. -1 means "
        "no limit.",
        minimum=-1,
    )
