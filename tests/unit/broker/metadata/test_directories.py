"""Log directories belong to one cluster and one node, and others are refused."""

from __future__ import annotations

import random

import pytest

from tests.support.disks.crash_points import crash_points
from tests.support.metadata.images import CLUSTER_ID, SeededRandomness
from tidelog.base.config_definition import ConfigError
from tidelog.base.randomness import new_uuid
from tidelog.broker.metadata.directories import NodeIdentity, prepare_directories
from tidelog.protocol.ids import uuid_from_text, uuid_text
from tidelog.storage.directories.meta_properties import MetaProperties, MetaPropertiesFile
from tidelog.storage.disk.files import FileSystem
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

DIRECTORIES = ("/a", "/b")
CHANCE = SeededRandomness()


def prepare(
    fs: FileSystem,
    cluster_id: str | None = None,
    node_id: int = 1,
    directories: tuple[str, ...] = DIRECTORIES,
) -> NodeIdentity:
    return prepare_directories(fs, directories, node_id, cluster_id, CHANCE)


def test_new_directories_get_a_common_cluster_id_and_unique_ids() -> None:
    disk = CrashFileSystem()
    identity = prepare(disk)
    assert uuid_from_text(identity.cluster_id)
    assert list(identity.directory_ids) == ["/a", "/b"]
    assert len(set(identity.directory_ids.values())) == 2
    for path, directory_id in identity.directory_ids.items():
        assert MetaPropertiesFile(disk, path).read() == MetaProperties(
            cluster_id=identity.cluster_id, node_id=1, directory_id=directory_id
        )


def test_a_configured_cluster_id_is_used() -> None:
    assert prepare(CrashFileSystem(), CLUSTER_ID).cluster_id == CLUSTER_ID


def test_directories_keep_their_ids() -> None:
    disk = CrashFileSystem()
    assert prepare(disk, CLUSTER_ID) == prepare(disk) == prepare(disk, CLUSTER_ID)


def test_an_added_directory_gets_the_cluster_id() -> None:
    disk = CrashFileSystem()
    first = prepare(disk, directories=("/a",))
    both = prepare(disk)
    assert both.cluster_id == first.cluster_id
    assert both.directory_ids["/a"] == first.directory_ids["/a"]


def test_a_directory_of_another_cluster_is_refused() -> None:
    disk = CrashFileSystem()
    prepare(disk, CLUSTER_ID, directories=("/a",))
    prepare(disk, "another", directories=("/b",))
    with pytest.raises(ConfigError, match=r"cluster\.id=another; /b"):
        prepare(disk)
    with pytest.raises(ConfigError, match=r"cluster\.id=MkU3"):
        prepare(disk, "third", directories=("/a",))


def test_a_directory_of_another_node_is_refused() -> None:
    disk = CrashFileSystem()
    prepare(disk, node_id=1)
    with pytest.raises(ConfigError, match=r"node\.id=2; /a belongs to node 1"):
        prepare(disk, node_id=2)


def test_a_copy_of_a_directory_is_refused() -> None:
    disk = CrashFileSystem()
    prepare(disk, directories=("/a",))
    disk.makedirs("/b")
    disk.open("/b/meta.properties", create=True).append(disk.read("/a/meta.properties"))
    with pytest.raises(ConfigError, match="one of them is a copy"):
        prepare(disk)


def test_a_directory_of_an_older_version_is_upgraded() -> None:
    disk = CrashFileSystem()
    disk.makedirs("/a")
    disk.open("/a/meta.properties", create=True).append(b"version=0\nbroker.id=1\n")
    identity = prepare(disk, CLUSTER_ID, directories=("/a",))
    properties = MetaPropertiesFile(disk, "/a").read()
    assert (properties.version, properties.cluster_id, properties.node_id) == (1, CLUSTER_ID, 1)
    assert properties.directory_id == identity.directory_ids["/a"]


class RefusingFileSystem(CrashFileSystem):
    """A file system that refuses one directory."""

    refused = "/b"

    def makedirs(self, path: str) -> None:
        if path == self.refused:
            raise PermissionError(13, "Permission denied", path)
        super().makedirs(path)


def test_a_failed_directory_is_excluded(caplog: pytest.LogCaptureFixture) -> None:
    assert list(prepare(RefusingFileSystem()).directory_ids) == ["/a"]
    assert [record.getMessage() for record in caplog.records] == [
        "Cannot use log directory /b: [Errno 13] Permission denied: '/b'"
    ]


def test_without_a_usable_directory_the_start_fails_with_one_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ConfigError, match=r"log\.dirs=/b; no directory can be used .*Permission denied"):
        prepare(RefusingFileSystem(), directories=("/b",))
    assert not caplog.records


def test_after_any_crash_the_next_start_has_one_cluster_id() -> None:
    def workload(disk: CrashFileSystem, progress: list[str]) -> None:
        progress.append(prepare(disk, CLUSTER_ID).cluster_id)

    for point in crash_points(lambda disk: None, workload):
        before = {
            path: MetaPropertiesFile(point.disk, path).read()
            for path in DIRECTORIES
            if MetaPropertiesFile(point.disk, path).exists()
        }
        identity = prepare(point.disk, CLUSTER_ID)
        assert identity.cluster_id == CLUSTER_ID, str(point)
        for path, properties in before.items():
            assert identity.directory_ids[path] == properties.directory_id, str(point)


def test_a_formatted_directory_survives_a_power_loss_with_its_parents() -> None:
    disk = CrashFileSystem()
    identity = prepare(disk, directories=("/new/deep/a", "/b"))
    after = disk.crash(Survival.LOSE_UNSYNCED)
    assert prepare(after, directories=("/new/deep/a", "/b")) == identity


def test_new_ids_are_valid_for_kafka() -> None:
    chance = random.SystemRandom()
    ids = {new_uuid(chance) for _ in range(500)}
    assert len(ids) == 500
    assert not any(uuid_text(each).startswith("-") for each in ids)
    assert {chance.randrange(3) for _ in range(200)} == {0, 1, 2}
