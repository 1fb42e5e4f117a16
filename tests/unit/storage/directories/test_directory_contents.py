"""The partition directories of a log directory by their purpose."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.directory_contents import DirectoryContents, read_contents
from tidelog.storage.directories.partition_directory import (
    NAME_BYTES_MAX,
    DirectoryKind,
    renamed_directory_name,
)
from tidelog.storage.disk.checkpoints import PartitionMetadataFile
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

TOPIC_ID, UNIQUE_ID = UUID(int=1), UUID(int=2)
PARTITION = TopicPartition("events", 3)


def contents_of(*names: str, topic_id: UUID | None = TOPIC_ID) -> DirectoryContents:
    """Return the contents of a log directory with these partition directories."""
    disk = CrashFileSystem()
    disk.makedirs("/data")
    for name in names:
        disk.makedirs(f"/data/{name}")
        if topic_id is not None:
            PartitionMetadataFile(disk, f"/data/{name}").write(topic_id)
    return read_contents(disk, "/data")


def renamed(kind: DirectoryKind, topic: str = "events") -> str:
    return renamed_directory_name(TopicPartition(topic, 3), kind, UNIQUE_ID)


def test_partitions_in_use_are_those_with_their_own_names() -> None:
    assert contents_of("events-3", "events-4", "remote-log-index-cache").in_use == [
        PARTITION,
        TopicPartition("events", 4),
    ]


def test_the_metadata_log_is_not_in_use_as_a_partition() -> None:
    assert contents_of("__cluster_metadata-0") == DirectoryContents()


def test_a_directory_that_is_no_partition_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert contents_of("lost+found") == DirectoryContents()
    assert "/data/lost+found is ignored: it is not named like a partition" in caplog.text


def test_a_deleted_partition_is_removed_and_its_topic_id_is_known() -> None:
    name = renamed(DirectoryKind.DELETED)
    contents = contents_of(name)
    assert contents.deleted_paths == [f"/data/{name}"]
    assert contents.unused == [(PARTITION, TOPIC_ID)]


def test_a_deleted_partition_without_a_topic_id_is_removed() -> None:
    contents = contents_of(renamed(DirectoryKind.DELETED), topic_id=None)
    assert len(contents.deleted_paths) == 1
    assert contents.unused == []


def test_a_stray_partition_is_ignored_and_its_topic_id_is_known(caplog: pytest.LogCaptureFixture) -> None:
    assert contents_of(renamed(DirectoryKind.STRAY)) == DirectoryContents(unused=[(PARTITION, TOPIC_ID)])
    assert "it is a stray partition" in caplog.text


def test_an_incomplete_copy_is_interrupted() -> None:
    name = renamed(DirectoryKind.FUTURE)
    assert contents_of(name) == DirectoryContents(interrupted_copies={PARTITION: f"/data/{name}"})


@pytest.mark.parametrize("kind", [DirectoryKind.DELETED, DirectoryKind.STRAY])
def test_the_topic_of_a_name_that_was_cut_is_not_known(kind: DirectoryKind) -> None:
    name = renamed(kind, "t" * 249)
    assert len(name.encode()) == NAME_BYTES_MAX
    assert contents_of(name).unused == []
