"""The periodic backup of the active controller."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.backup import BACKUP
from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.waiting import eventually
from tidelog.broker.backup.archive import ClusterBackup
from tidelog.broker.backup.catalog import BackupCatalog
from tidelog.broker.backup.task import BackupPorts, PeriodicBackup
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.remote.inspection.bucket import Bucket

CLUSTER = BACKUP.cluster_id


class Controller:
    """A node that may be the active controller, and its bucket."""

    def __init__(self, folder: Path, *, interval_ms: int = 1_000, retention_ms: int = -1) -> None:
        bucket = Bucket.open({"storage.backend.class": "filesystem", "storage.root": str(folder)})
        self.catalog = BackupCatalog(bucket.storage.store, bucket.prefix)
        self.clock = ManualClock()
        self.failures = 0
        self.collected = 0
        self.previous: ClusterBackup | None = None
        ports = BackupPorts(
            clock=self.clock,
            image=lambda: MetadataImage(cluster_id=CLUSTER, offset=1, epoch=1),
            collect=self.collect,
            open_catalog=lambda: self.catalog,
        )
        self.backup = PeriodicBackup(ports, interval_ms=interval_ms, retention_ms=retention_ms)

    async def collect(
        self, image: MetadataImage, metadata: bytes, now_ms: int, previous: ClusterBackup | None
    ) -> ClusterBackup:
        self.collected += 1
        self.previous = previous
        if self.collected <= self.failures:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator")
        return replace(BACKUP, metadata=metadata, created_ms=now_ms)

    @property
    def times_ms(self) -> list[int]:
        return [entry.created_ms for entry in self.catalog.entries()]


async def test_a_new_active_controller_writes_a_first_backup_at_once(tmp_path: Path) -> None:
    controller = Controller(tmp_path)
    controller.backup.on_activation(1)
    await eventually(lambda: controller.times_ms == [NOW_MS])
    controller.backup.stop()


async def test_an_election_does_not_cause_another_backup_before_the_interval(tmp_path: Path) -> None:
    controller = Controller(tmp_path, interval_ms=3_600_000)
    controller.catalog.write(replace(BACKUP, created_ms=NOW_MS - 3_600_000 + 200))
    controller.backup.on_activation(1)
    await eventually(lambda: controller.collected == 1)
    controller.backup.stop()


async def test_expired_backups_are_deleted_after_a_new_one(tmp_path: Path) -> None:
    controller = Controller(tmp_path, retention_ms=10_000)
    for age_ms in (50_000, 20_000, 5_000):
        controller.catalog.write(replace(BACKUP, created_ms=NOW_MS - age_ms))
    controller.backup.on_activation(1)
    await eventually(lambda: controller.times_ms == [NOW_MS - 5_000, NOW_MS])
    controller.backup.stop()


async def test_a_backup_follows_the_newest_readable_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Controller(tmp_path)
    controller.catalog.write(replace(BACKUP, created_ms=NOW_MS - 30_000, metadata_offset=30))
    readable = replace(BACKUP, created_ms=NOW_MS - 20_000, metadata_offset=40)
    controller.catalog.write(readable)
    damaged = controller.catalog.write(replace(BACKUP, created_ms=NOW_MS - 10_000, metadata_offset=50))
    (tmp_path / damaged.key).write_bytes(b"half of a backup")
    controller.backup.on_activation(1)
    await eventually(lambda: NOW_MS in controller.times_ms)
    controller.backup.stop()
    assert controller.previous == readable
    assert f"Cannot read an earlier backup of the cluster: {damaged.key}" in caplog.text


async def test_a_failed_backup_is_repeated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    controller = Controller(tmp_path)
    controller.failures = 1
    controller.backup.on_activation(1)
    await eventually(lambda: controller.times_ms == [NOW_MS])
    controller.backup.stop()
    assert "Cannot write a backup of the cluster: no coordinator" in caplog.text


async def test_a_cluster_that_is_being_restored_writes_no_backup(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Controller(tmp_path)
    old = controller.catalog.write(replace(BACKUP, created_ms=NOW_MS - 86_400_000))
    controller.catalog.begin_restore(CLUSTER, old)
    controller.backup.on_activation(1)
    await eventually(lambda: "is being restored" in caplog.text)
    assert controller.collected == 0
    controller.catalog.end_restore(CLUSTER)
    await eventually(lambda: len(controller.times_ms) == 2)
    controller.backup.stop()


async def test_a_controller_that_resigns_writes_no_backup(tmp_path: Path) -> None:
    controller = Controller(tmp_path)
    controller.backup.on_activation(1)
    controller.backup.stop()
    await asyncio.sleep(0)
    assert controller.collected == 0
