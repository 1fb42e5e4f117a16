"""Formatting: the contents of the directories afterwards, and refusals."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.metadata.images import CLUSTER_ID, SeededRandomness
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.formatting import (
    FormatError,
    InitialVoter,
    NewCluster,
    format_directories,
    parse_initial_voters,
    read_bootstrap,
)
from tidelog.broker.raft.snapshot_format import read_snapshot
from tidelog.cluster.controller.bootstrap import feature_records
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey, VoterSet
from tidelog.protocol.ids import uuid_text
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.storage.directories.meta_properties import MetaPropertiesFile
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

VOTERS = (
    InitialVoter(1, "a", 9093, UUID(int=1001)),
    InitialVoter(2, "::1", 9094, UUID(int=1002)),
)
SNAPSHOT = "/m/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def config(node_id: int = 1, **values: str) -> BrokerConfig:
    return BrokerConfig(
        {
            "node.id": str(node_id),
            "log.dirs": "/d,/m",
            "metadata.log.dir": "/m",
            "controller.quorum.bootstrap.servers": "a:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://h:1,CONTROLLER://h:2",
            **values,
        }
    )


def format_disk(
    disk: CrashFileSystem,
    voters: tuple[InitialVoter, ...] = VOTERS,
    *,
    node_id: int = 1,
    ignore: bool = False,
    credentials: tuple[UserScramCredentialRecord, ...] = (),
) -> list[str]:
    return list(
        format_directories(
            disk,
            config(node_id),
            NewCluster(CLUSTER_ID, voters, credentials),
            ignore_formatted=ignore,
            randomness=SeededRandomness(),
            now_ms=1234,
        )
    )


def test_scram_credentials_are_in_the_bootstrap_records() -> None:
    disk = CrashFileSystem()
    credential = UserScramCredentialRecord(name="alice", mechanism=1, iterations=4096)
    format_disk(disk, credentials=(credential,))
    for path in ("/d", "/m"):
        assert read_bootstrap(disk, path) == (*feature_records(), credential)


def test_every_directory_has_meta_properties_and_bootstrap_records() -> None:
    disk = CrashFileSystem()
    lines = format_disk(disk)
    assert [line.split(" for ")[0] for line in lines] == [
        "Formatted log directory /d",
        "Formatted metadata directory /m",
    ]
    for path in ("/d", "/m"):
        properties = MetaPropertiesFile(disk, path).read()
        assert (properties.cluster_id, properties.node_id) == (CLUSTER_ID, 1)
        assert read_bootstrap(disk, path) == feature_records()
    assert MetaPropertiesFile(disk, "/m").read().directory_id == UUID(int=1001)


def test_the_bootstrap_snapshot_has_the_initial_voters() -> None:
    disk = CrashFileSystem()
    format_disk(disk)
    snapshot = read_snapshot(SNAPSHOT, disk.read(SNAPSHOT))
    assert snapshot.batches == []
    assert (snapshot.head.kraft_version, snapshot.head.last_contained_log_timestamp) == (1, 1234)
    assert snapshot.head.voters is not None
    voters = VoterSet.from_record(snapshot.head.voters)
    assert voters.by_id[2].key == ReplicaKey(2, UUID(int=1002))
    assert voters.by_id[2].endpoints == (Endpoint("CONTROLLER", "::1", 9094),)


def test_a_node_outside_the_voters_gets_the_voters_and_its_own_directory_id() -> None:
    disk = CrashFileSystem()
    format_disk(disk, node_id=3)
    assert disk.exists(SNAPSHOT)
    assert MetaPropertiesFile(disk, "/m").read().directory_id not in {voter.directory_id for voter in VOTERS}


def test_without_voters_there_is_no_snapshot() -> None:
    disk = CrashFileSystem()
    format_disk(disk, ())
    assert not disk.exists(SNAPSHOT)


def test_formatted_directories_are_not_changed() -> None:
    disk = CrashFileSystem()
    format_disk(disk)
    before = disk.read("/m/meta.properties")
    with pytest.raises(FormatError, match="/d is already formatted"):
        format_disk(disk)
    assert format_disk(disk, ignore=True) == ["All of the log directories are already formatted."]
    assert disk.read("/m/meta.properties") == before
    with pytest.raises(FormatError, match="belongs to node 1"):
        format_disk(disk, node_id=2, ignore=True)


@pytest.mark.parametrize("survival", [*Survival, 1, 2])
def test_a_directory_that_is_formatted_after_a_crash_is_complete(survival: Survival | int) -> None:
    count = 0
    while True:
        count += 1
        disk = CrashFileSystem(crash_at=count)
        try:
            format_disk(disk)
        except BaseException:
            after = disk.crash(survival)
            if after.exists("/m/meta.properties"):
                assert read_bootstrap(after, "/m") == feature_records()
                read_snapshot(SNAPSHOT, after.read(SNAPSHOT))
            continue
        break
    assert count > 20


def test_formatted_directories_survive_a_power_loss() -> None:
    disk = CrashFileSystem()
    format_disk(disk)
    after = disk.crash(Survival.LOSE_UNSYNCED)
    assert MetaPropertiesFile(after, "/m").read().directory_id == UUID(int=1001)
    assert after.exists(SNAPSHOT)


def test_initial_controllers_are_parsed_as_in_kafka() -> None:
    ids = [uuid_text(voter.directory_id) for voter in VOTERS]
    assert parse_initial_voters(f"1@a:9093:{ids[0]}, 2@[::1]:9094:{ids[1]}") == VOTERS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1@a:1",
        "@a:1:AAAAAAAAAAAAAAAAAAAD6Q",
        "x@a:1:AAAAAAAAAAAAAAAAAAAD6Q",
        "1@:1:AAAAAAAAAAAAAAAAAAAD6Q",
        "1@a:70000:AAAAAAAAAAAAAAAAAAAD6Q",
        "1@[::1:1:AAAAAAAAAAAAAAAAAAAD6Q",
        "1@a:1:short",
        "1@a:1:AAAAAAAAAAAAAAAAAAAAAA",
        "1@a:1:AAAAAAAAAAAAAAAAAAAD6Q,1@b:1:AAAAAAAAAAAAAAAAAAAD6g",
    ],
)
def test_invalid_initial_controllers_are_refused_with_their_text(text: str) -> None:
    with pytest.raises(FormatError):
        parse_initial_voters(text)
