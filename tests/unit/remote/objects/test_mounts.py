"""Buckets and prefixes of other clusters: their configs, and the keys that are read from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.tier.settings import remote_settings
from tidelog.base.config_definition import ConfigError
from tidelog.remote.objects.config import storage_manager_from_config
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.mounts import mount_values
from tidelog.remote.objects.stores.activity import StoreActivity, Traffic
from tidelog.remote.objects.stores.port import ObjectInfo, RequestKind
from tidelog.remote.ports.storage_manager import RemoteStorageError, StoreUnavailable
from tidelog.remote.tasks.outages import StoreOutages

OWN = {"storage.backend.class": "filesystem", "storage.root": "/own"}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ObjectStorageManager]:
    """Return a manager with a mount that is another directory."""
    for name in ("own", "west"):
        (tmp_path / name / "w").mkdir(parents=True)
    values = {
        "storage.backend.class": "filesystem",
        "storage.root": str(tmp_path / "own"),
        "mounts.west.storage.root": str(tmp_path / "west"),
        "mounts.west.key.prefix": "w/",
    }
    (tmp_path / "west" / "w" / "a").write_bytes(b"west")
    (tmp_path / "own" / "a").write_bytes(b"own")
    created = storage_manager_from_config(values)
    yield created
    created.close()


def test_keys_of_a_mount_are_read_from_its_store_below_its_prefix(manager: ObjectStorageManager) -> None:
    store = manager.store
    assert store.get("mount://west/a").read() == b"west"
    assert store.get("a").read() == b"own"
    assert store.size("mount://west/a") == 4
    assert list(store.list("mount://west/")) == [ObjectInfo("mount://west/a", 4)]
    assert list(store.list("mount://west/", "mount://west/a")) == []
    assert list(store.list("mount://west/", "mount://west/Z")) == [ObjectInfo("mount://west/a", 4)]
    assert ObjectInfo("a", 3) in list(store.list(""))


def test_a_mount_is_never_written_and_nothing_in_it_is_deleted(
    manager: ObjectStorageManager, tmp_path: Path
) -> None:
    with pytest.raises(RemoteStorageError, match="mounts are only read"):
        manager.store.put("mount://west/b", b"x", 1)
    with pytest.raises(RemoteStorageError, match="mounts are only read"):
        manager.store.delete(["a", "mount://west/a"])
    assert (tmp_path / "west" / "w" / "a").exists()
    assert (tmp_path / "own" / "a").exists()


def test_a_mount_that_is_not_configured_is_named(manager: ObjectStorageManager) -> None:
    with pytest.raises(RemoteStorageError, match="there is no mount 'east'"):
        manager.store.get("mount://east/a")


def test_a_mount_with_a_class_has_only_its_own_settings() -> None:
    values = {**OWN, "mounts.b.storage.backend.class": "s3", "mounts.b.storage.s3.bucket.name": "x"}
    assert mount_values(values) == {"b": {"storage.backend.class": "s3", "storage.s3.bucket.name": "x"}}
    assert mount_values({**OWN, "mounts.c.key.prefix": "c/"}) == {"c": {**OWN, "key.prefix": "c/"}}


@pytest.mark.parametrize("key", ["mounts.a-b.key.prefix", "mounts.a.chunk.size", "mounts.a"])
def test_a_wrong_setting_of_a_mount_is_a_config_error(key: str) -> None:
    with pytest.raises(ConfigError, match="mount"):
        mount_values({**OWN, key: "x"})


def test_requests_to_a_mount_are_counted_by_its_name(tmp_path: Path) -> None:
    outages = StoreOutages.create(remote_settings(), ManualClock(), Random(1))
    activity = StoreActivity(outages.copies, outages.reads, outages.deletions)
    for name in ("own", "west"):
        (tmp_path / name).mkdir()
    values = {
        "storage.backend.class": "filesystem",
        "storage.root": str(tmp_path / "own"),
        "mounts.west.storage.root": str(tmp_path / "west"),
    }
    path = "tides-AAAAAAAAAAAAAAAAAAAAAQ/3/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAg.log"
    (tmp_path / "west" / path).parent.mkdir(parents=True)
    (tmp_path / "west" / path).write_bytes(b"west")
    manager = storage_manager_from_config(values, activity=activity)
    assert manager.store.get(f"mount://west/{path}").read() == b"west"
    assert len(list(manager.store.list("mount://west/"))) == 1
    manager.close()
    traffic = {(topic, kind.value): counted for (topic, kind), counted in activity.traffic().items()}
    assert traffic[("west/tides", "GET")] == Traffic(1, 4)
    assert traffic[("west/", "LIST")] == Traffic(1, 0)
    assert not any(topic in ("", "tides") for topic, _ in traffic)


def test_a_mount_that_does_not_respond_is_no_outage_of_the_own_store() -> None:
    outages = StoreOutages.create(remote_settings(), ManualClock(), Random(1))
    activity = StoreActivity(outages.copies, outages.reads, outages.deletions)
    for is_own in (False, True):
        with (
            pytest.raises(StoreUnavailable),
            activity.call("t", RequestKind.GET, is_request=True, is_own=is_own),
        ):
            raise StoreUnavailable("no route")
        assert (outages.reads.status is not None) == is_own
