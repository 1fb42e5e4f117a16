"""meta.properties: Kafka's own file, old versions, escapes, damage and crashes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.disks.crash_points import crash_points
from tests.support.paths import GOLDEN_FILES
from tidelog.protocol.ids import uuid_from_text
from tidelog.storage.directories.meta_properties import MetaProperties, MetaPropertiesFile
from tidelog.storage.disk.errors import CorruptCheckpoint
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL

GOLDEN = GOLDEN_FILES / "storage"
KAFKAS = MetaProperties(
    cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=7, directory_id=uuid_from_text("Jm3Pbf8oTLm8XCPbdh9Xpw")
)


def file_with(content: bytes) -> MetaPropertiesFile:
    disk = CrashFileSystem()
    disk.open("/meta.properties", create=True).append(content)
    return MetaPropertiesFile(disk, "")


def test_kafkas_file_is_read() -> None:
    assert file_with((GOLDEN / "meta.properties").read_bytes()).read() == KAFKAS


def test_the_file_equals_kafkas_except_for_the_date() -> None:
    disk = CrashFileSystem()
    file = MetaPropertiesFile(disk, "")
    assert not file.exists()
    file.write(KAFKAS)
    lines = (GOLDEN / "meta.properties").read_text().splitlines(keepends=True)
    assert disk.read("/meta.properties").decode() == "".join([lines[0], *lines[2:]])
    assert (file.exists(), file.read()) == (True, KAFKAS)


def test_version_0_has_broker_id_instead_of_node_id() -> None:
    read = file_with((GOLDEN / "meta.properties.version0").read_bytes()).read()
    assert read == MetaProperties(version=0, cluster_id="a b:c=d", node_id=7)
    assert file_with(b"# nothing\n").read() == MetaProperties(version=0)


def test_the_properties_file_syntax_is_supported() -> None:
    content = (
        b"  ! comment\n\n version : 1\r\ncluster\\.id   a\\u0042\\\n   c\\\\ \nnode.id=\t3\r"
        b"unknown=1\nnode.id=4\n"
    )
    assert file_with(content).read() == MetaProperties(cluster_id="aBc\\ ", node_id=4)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version=2\n", "line 1: version '2' is unknown"),
        (b"#\nversion=x\n", "line 2: version 'x' is unknown"),
        (b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (b"version=1\ncluster.id=x\n", "node.id is missing"),
        (b"version=1\ncluster.id=x\nnode.id=one\n", "line 3: node.id 'one'"),
        (b"version=0\nbroker.id=\n", "line 2: broker.id ''"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=short\n", "line 4: directory.id 'short'"),
        (b"version=1\ncluster.id=\\u12\nnode.id=1\n", "line 2: .*malformed"),
    ],
)
def test_corruption_is_reported_with_file_and_line(content: bytes, reason: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=f"/meta.properties: {reason}"):
        file_with(content).read()


@settings(max_examples=200, deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=80), st.text("version=1\n\\u:# node.id0", max_size=60).map(str.encode)
    )
)
def test_random_bytes_are_read_or_refused_with_the_file_name(content: bytes) -> None:
    try:
        file_with(content).read()
    except CorruptCheckpoint as damage:
        assert damage.path == "/meta.properties"


@settings(max_examples=100, deadline=None)
@given(
    cluster_id=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
    node_id=st.integers(0, 2**31 - 1),
    directory_id=st.one_of(st.none(), st.uuids()),
)
def test_the_file_round_trips(cluster_id: str, node_id: int, directory_id: Any) -> None:
    file = file_with(b"")
    properties = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
    file.write(properties)
    assert file.read() == properties


def test_after_a_crash_at_any_operation_the_old_or_new_content_is_read() -> None:
    old, new = KAFKAS, MetaProperties(cluster_id="other", node_id=8)

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        MetaPropertiesFile(disk, "").write(new)
        progress.append(new)

    for point in crash_points(
        lambda disk: MetaPropertiesFile(disk, "").write(old), workload, (*EVERY_SURVIVAL, *range(20))
    ):
        allowed = [new] if point.progress else [old, new]
        assert MetaPropertiesFile(point.disk, "").read() in allowed, str(point)
