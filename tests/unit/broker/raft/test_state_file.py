"""quorum-state: the bytes of Kafka in both versions, and a complete file after every crash."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.broker.raft.state_file import QuorumStateFile
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.protocol.ids import uuid_from_text
from tidelog.storage.disk.errors import CorruptCheckpoint, StorageFailure
from tidelog.storage.disk.files import write_atomically
from tidelog.testing.simulation.crash_file_system import CrashFileSystem, SimulatedCrash
from tidelog.testing.simulation.crash_images import Survival

DIRECTORY = "/data/__cluster_metadata-0"
PATH = f"{DIRECTORY}/quorum-state"
KEY = "J8aAPcfLQt2bqs1JT_rMgQ"


def disk_with(text: str | None = None) -> CrashFileSystem:
    disk = CrashFileSystem()
    disk.makedirs(DIRECTORY)
    if text is not None:
        write_atomically(disk, PATH, text.encode())
    disk.sync_all()
    return disk


def write(disk: CrashFileSystem, record: QuorumRecord, kraft_version: int = 1) -> None:
    QuorumStateFile(disk, DIRECTORY).write(record, kraft_version=kraft_version, voters=(1, 2, 3))


def test_version_1_equals_kafkas() -> None:
    disk = disk_with()
    record = QuorumRecord(leader_epoch=2, voted_id=1, voted_directory_id=uuid_from_text(KEY))
    write(disk, record)
    assert disk.read(PATH) == (
        f'{{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"{KEY}","data_version":1}}'.encode()
    )
    assert QuorumStateFile(disk, DIRECTORY).read() == record


def test_version_0_equals_kafkas() -> None:
    disk = disk_with()
    write(disk, QuorumRecord(leader_epoch=2, leader_id=1), kraft_version=0)
    assert disk.read(PATH) == (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
    )
    assert QuorumStateFile(disk, DIRECTORY).read() == QuorumRecord(leader_epoch=2, leader_id=1)


def test_version_0_does_not_contain_the_directory_of_the_vote() -> None:
    disk = disk_with()
    write(disk, QuorumRecord(leader_epoch=4, voted_id=3, voted_directory_id=UUID(int=7)), kraft_version=0)
    assert QuorumStateFile(disk, DIRECTORY).read() == QuorumRecord(leader_epoch=4, voted_id=3)


def test_a_missing_file_has_no_state() -> None:
    assert QuorumStateFile(disk_with(), DIRECTORY).read() is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "not a JSON object"),
        ('{"leaderEpoch":1}', "data_version"),
        ('{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":2}', "data_version 2 is not supported"),
        ('{"leaderId":1,"leaderEpoch":"1","votedId":-1,"data_version":1}', "leaderEpoch"),
        ('{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"x","data_version":1}', "votedDir"),
        ('{"leaderId":1,"leaderEpoch":true,"votedId":1,"data_version":1}', "leaderEpoch"),
    ],
)
def test_a_corrupt_file_is_reported(text: str, words: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=words) as raised:
        QuorumStateFile(disk_with(text), DIRECTORY).read()
    assert raised.value.path == PATH


@pytest.mark.parametrize("survival", [*Survival, *range(10)])
def test_after_a_crash_at_any_operation_the_old_or_the_new_record_is_read(survival: Survival | int) -> None:
    old, new = QuorumRecord(leader_epoch=6, voted_id=2), QuorumRecord(leader_epoch=7, leader_id=3)
    count = 0
    while True:
        disk = disk_with()
        write(disk, old, 0)
        disk.sync_all()
        disk.crash_at = count + 1
        try:
            write(disk, new, 0)
        except SimulatedCrash:
            record = QuorumStateFile(disk.crash(survival), DIRECTORY).read()
            assert record in (old, new)
            count += 1
            continue
        break
    assert count >= 4
    assert QuorumStateFile(disk.crash(survival), DIRECTORY).read() == new


@pytest.mark.parametrize("path_part", ["quorum-state", "__cluster_metadata-0"])
def test_a_failed_sync_is_raised(path_part: str) -> None:
    disk = disk_with()
    disk.fail_next_fsync(path_part)
    with pytest.raises(StorageFailure):
        write(disk, QuorumRecord(leader_epoch=1))
