"""The backups in a bucket: listing, selection, expiry, and restores that suspend backups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.backup import BACKUP
from tidelog.broker.backup.catalog import LATEST, BackupCatalog, BackupNotFound, id_text
from tidelog.remote.inspection.bucket import Bucket

CLUSTER, OTHER = BACKUP.cluster_id, "AAAAAAAAAAAAAAAAAAAAAA"
NOW_MS = BACKUP.created_ms


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket.open(
        {"storage.backend.class": "filesystem", "storage.root": str(tmp_path), "key.prefix": "tier/"}
    )


@pytest.fixture
def catalog(bucket: Bucket) -> BackupCatalog:
    return BackupCatalog(bucket.storage.store, bucket.prefix)


def write(catalog: BackupCatalog, *times_ms: int, cluster_id: str = CLUSTER) -> list[str]:
    backups = [replace(BACKUP, created_ms=time_ms, cluster_id=cluster_id) for time_ms in times_ms]
    return [catalog.write(backup).id for backup in backups]


def test_a_written_backup_is_listed_and_read(catalog: BackupCatalog) -> None:
    (backup_id,) = write(catalog, NOW_MS)
    assert backup_id == "20261127T200250.949Z"
    (entry,) = catalog.entries()
    assert (entry.cluster_id, entry.id, entry.created_ms) == (CLUSTER, backup_id, NOW_MS)
    assert catalog.read(entry) == BACKUP


@pytest.mark.parametrize("time_ms", [0, 999, 1_000, 951_782_400_000, NOW_MS, 4_102_444_799_999])
def test_the_id_is_the_time(catalog: BackupCatalog, time_ms: int) -> None:
    write(catalog, time_ms)
    assert [entry.created_ms for entry in catalog.entries()] == [time_ms]


def test_the_latest_backup_is_the_newest_one(catalog: BackupCatalog) -> None:
    _, newest, _ = write(catalog, NOW_MS, NOW_MS + 2, NOW_MS + 1)
    assert catalog.find(LATEST).id == newest
    assert catalog.find(newest, CLUSTER).id == newest


def test_a_missing_backup_is_named_with_those_that_exist(catalog: BackupCatalog) -> None:
    (existing,) = write(catalog, NOW_MS)
    with pytest.raises(BackupNotFound, match=existing):
        catalog.find("20200101T000000.000Z")
    with pytest.raises(BackupNotFound, match="newest backups: none"):
        catalog.find(LATEST, OTHER)


def test_the_latest_backup_of_several_clusters_needs_a_choice(catalog: BackupCatalog) -> None:
    write(catalog, NOW_MS)
    write(catalog, NOW_MS + 1, cluster_id=OTHER)
    with pytest.raises(BackupNotFound, match="several clusters"):
        catalog.find(LATEST)
    assert catalog.find(LATEST, CLUSTER).created_ms == NOW_MS


def test_old_backups_of_one_cluster_expire_but_never_the_newest(catalog: BackupCatalog) -> None:
    write(catalog, NOW_MS, NOW_MS + 1, NOW_MS + 2)
    write(catalog, NOW_MS, cluster_id=OTHER)
    assert [entry.created_ms for entry in catalog.delete_expired(CLUSTER, NOW_MS + 1)] == [NOW_MS]
    assert len(catalog.delete_expired(CLUSTER, NOW_MS + 1_000)) == 1
    assert [entry.created_ms for entry in catalog.entries(CLUSTER)] == [NOW_MS + 2]
    assert len(catalog.entries(OTHER)) == 1


def test_while_a_cluster_is_restored_its_latest_backup_is_the_one_it_is_restored_from(
    catalog: BackupCatalog,
) -> None:
    write(catalog, NOW_MS)
    (entry,) = catalog.entries()
    catalog.begin_restore(CLUSTER, entry)
    write(catalog, NOW_MS + 1)
    assert catalog.resolve(LATEST) == catalog.resolve(LATEST, CLUSTER) == entry
    assert catalog.pending_restore(CLUSTER) == entry
    catalog.end_restore(CLUSTER)
    assert catalog.pending_restore(CLUSTER) is None
    assert catalog.resolve(LATEST).created_ms == NOW_MS + 1


def test_a_restore_from_a_deleted_backup_is_an_error(catalog: BackupCatalog) -> None:
    write(catalog, NOW_MS)
    (entry,) = catalog.entries()
    catalog.begin_restore(CLUSTER, entry)
    catalog.delete(entry)
    with pytest.raises(BackupNotFound, match="does not exist"):
        catalog.pending_restore(CLUSTER)


def test_other_objects_are_no_backups_and_backups_are_no_objects_of_topics(
    catalog: BackupCatalog, bucket: Bucket
) -> None:
    write(catalog, NOW_MS)
    for name in ("notes.txt", f"{CLUSTER}/x.zip", f"{CLUSTER}/20269999T200250.949Z.zip"):
        bucket.storage.store.put(f"tier/tidelog-backups/{name}", b"x", 1)
    assert [entry.id for entry in catalog.entries()] == [id_text(NOW_MS)]
    assert list(bucket.objects()) == []
