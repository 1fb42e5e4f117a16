"""The metadata log on disk: Kafka's batches, a new epoch per opening, and every crash in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.metadata.log import METADATA_TOPIC_ID, MetadataBatch, MetadataLog
from protocol.batch import iterate_headers
from protocol.control_batch import ControlRecordType, read_control_record
from protocol.control_records import LeaderChangeMessage
from protocol.errors import ErrorCode, KafkaError
from protocol.metadata_records.config_record import ConfigRecord
from protocol.metadata_records.feature_level_record import FeatureLevelRecord
from protocol.record import BatchBuilder, read_records
from storage.checkpoints import PartitionMetadataFile
from storage.files import FileSystem
from tests.support.crash_fs import CrashFileSystem
from tests.support.crash_points import crash_points
from tests.support.metadata_store import DIRECTORY, open_log

GOLDEN = Path(__file__).parents[2] / "cluster" / "golden" / "metadata-4.3.1.log"
PARTITION = f"{DIRECTORY}/__cluster_metadata-0"
SEGMENT = f"{PARTITION}/00000000000000000000.log"


def feature(number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=f"f{number}", feature_level=number)


def flush(log: MetadataLog) -> None:
    plan = log.flush_plan()
    plan.run()
    log.flushed(plan, 0)


def written(fs: FileSystem) -> list[MetadataBatch]:
    return list(open_log(fs).read_all())


def test_what_is_appended_is_read_back() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    log.append_leader_change(1, 5)
    batch = log.append([feature(1), feature(2)], 5)
    assert (batch.base_offset, batch.last_offset, batch.epoch) == (1, 2, 1)
    flush(log)
    log.close(5)
    found = written(disk)
    assert [each.records for each in found] == [None, [feature(1), feature(2)]]
    assert [each.base_offset for each in found] == [0, 1]


def test_every_opening_is_a_new_epoch() -> None:
    disk = CrashFileSystem()
    for epoch in (1, 2, 3):
        log = open_log(disk)
        assert log.epoch == epoch
        log.append_leader_change(1, 5)
        log.append([feature(epoch)], 5)
        flush(log)
        log.close(5)
    assert [batch.epoch for batch in written(disk)] == [1, 1, 2, 2, 3, 3]


def test_an_epoch_begins_with_the_record_of_its_leader() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    log.append_leader_change(7, 5)
    flush(log)
    data = disk.read(SEGMENT)
    (position, header) = next(iterate_headers(data))
    assert header.is_control
    assert header.partition_leader_epoch == 1
    (record,) = read_records(data, position, header)
    found = read_control_record(record)
    assert found is not None
    kind, message = found
    assert kind is ControlRecordType.LEADER_CHANGE
    assert isinstance(message, LeaderChangeMessage)
    assert message.leader_id == 7
    assert [voter.voter_id for voter in message.voters] == [7]


def test_the_directory_names_kafkas_topic_id() -> None:
    disk = CrashFileSystem()
    open_log(disk)
    assert PartitionMetadataFile(disk, PARTITION).read() == METADATA_TOPIC_ID


def test_the_log_of_apache_kafka_is_read() -> None:
    disk = CrashFileSystem()
    disk.makedirs(PARTITION)
    disk.open(SEGMENT, create=True).append(GOLDEN.read_bytes())
    log = open_log(disk)
    batches = list(log.read_all())
    assert sum(len(batch.records) for batch in batches if batch.records is not None) == 55
    assert log.epoch == 2


def test_a_damaged_record_is_reported_with_directory_and_offset() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    builder = BatchBuilder(base_offset=0, leader_epoch=1)
    builder.append(5, None, b"\x01\x0c\x09")
    log._append(builder.build(), 5, [])
    with pytest.raises(KafkaError, match=r"__cluster_metadata-0: the metadata record at offset 0") as error:
        list(log.read_all())
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_change_that_is_too_large_is_refused_and_leaves_the_log_as_it_was() -> None:
    log = open_log(CrashFileSystem())
    large = ConfigRecord(resource_type=2, resource_name="t", name="k", value="x" * 30_000)
    with pytest.raises(KafkaError) as error:
        log.append([large] * 300, 5)
    assert error.value.code is ErrorCode.POLICY_VIOLATION
    assert log.end_offset == 0


def test_a_text_that_kafka_could_not_read_is_refused() -> None:
    log = open_log(CrashFileSystem())
    with pytest.raises(KafkaError) as error:
        log.append([ConfigRecord(resource_type=2, resource_name="t", name="k", value="x" * 40_000)], 5)
    assert error.value.code is ErrorCode.INVALID_REQUEST
    assert log.end_offset == 0


def test_whatever_crash_comes_committed_changes_stay_and_none_is_half_there() -> None:
    def workload(disk: CrashFileSystem, progress: list[int]) -> None:
        log = open_log(disk)
        log.append_leader_change(1, 5)
        flush(log)
        for number in range(1, 4):
            log.append([feature(number), feature(number)], 5)
            flush(log)
            progress.append(number)

    for point in crash_points(lambda disk: disk.makedirs(DIRECTORY), workload):
        found = [batch.records for batch in written(point.disk) if batch.records is not None]
        expected = [[feature(number)] * 2 for number in range(1, 4)]
        assert found == expected[: len(found)], str(point)
        assert len(found) >= len(point.progress), str(point)
