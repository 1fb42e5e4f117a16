"""Failures of the disk during appends and rolls of a partition log."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.log_checks import check_log
from tests.support.logs.partition_logs import DIRECTORY, append, batch, open_log, values_of
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

EPOCHS = f"{DIRECTORY}/leader-epoch-checkpoint"


SMALL = log_config(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


class TestFailures:
    """A write that fails leaves the log as it was."""

    @pytest.mark.parametrize("free_bytes", [0, 1, 60, 100])
    def test_a_full_disk_refuses_only_the_batch(self, free_bytes: int) -> None:
        disk = CrashFileSystem()
        log = open_log(disk, log_config(index_interval_bytes=0))
        for index in range(3):
            append(log, "a", timestamps=NOW_MS + index)
        disk.free_bytes = free_bytes
        size_bytes = log.size_bytes
        with pytest.raises(KafkaError) as caught:
            append(log, "b" * 40)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (log.size_bytes, log.log_end_offset) == (size_bytes, 3)
        assert values_of(log) == ["a"] * 3
        check_log(log)
        disk.free_bytes = None
        assert append(log, "c") == 3
        check_log(log)
        reopened = open_log(disk)
        assert values_of(reopened) == ["a", "a", "a", "c"]

    @pytest.mark.parametrize("spare_bytes", [0, 5, 8, 35])
    def test_a_segment_whose_index_cannot_be_written_is_not_rolled(self, spare_bytes: int) -> None:
        disk = CrashFileSystem()
        log = open_log(disk, log_config(index_interval_bytes=0))
        for index in range(3):
            append(log, "a", timestamps=NOW_MS + index)
        disk.free_bytes = spare_bytes
        with pytest.raises(KafkaError) as caught:
            log.roll(NOW_MS)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        check_log(log)
        disk.free_bytes = None
        assert append(log, "c", timestamps=NOW_MS + 4) == 3
        log.roll(NOW_MS)
        assert values_of(log) == ["a", "a", "a", "c"]
        check_log(log)

    def test_a_failed_roll_leaves_no_segment(self) -> None:
        disk = FailingCreate()
        log = open_log(disk)
        append(log, "a")
        disk.refused = ".timeindex"
        with pytest.raises(KafkaError) as caught:
            log.roll(NOW_MS)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert [name for name in disk.listdir(DIRECTORY) if name.endswith(".log")] == [f"{0:020d}.log"]
        disk.refused = None
        assert append(log, "b") == 1
        assert log.roll(NOW_MS).base_offset == 2
        check_log(log)

    def test_the_recovery_point_stays_below_an_epoch_that_cannot_be_written(self) -> None:
        disk = FailingCreate()
        log = open_log(disk)
        append(log, "a", leader_epoch=1)
        log.flush(NOW_MS)
        append(log, "b", leader_epoch=2)
        disk.refused = "leader-epoch-checkpoint"
        with pytest.raises(StorageFailure):
            log.flush(NOW_MS)
        assert log.durability.recovery_point == 1
        reopened = open_log(disk.crash(Survival.KEEP_ALL), recovery_point=1)
        assert reopened.leader_epochs.entries == [EpochEntry(1, 0), EpochEntry(2, 1)]

    def test_an_append_that_contradicts_the_epoch_checkpoint_waits_for_its_write(self) -> None:
        """Recovery could not remove an epoch that is larger than those of the records."""
        disk = FailingCreate()
        log = open_log(disk)
        append(log, "a", leader_epoch=1)
        log.epoch_file.note(5, 1)
        log.flush(NOW_MS)
        assert disk.read(EPOCHS) == b"0\n2\n1 0\n5 1\n"
        older = bytes(batch(["b"], base_offset=1, leader_epoch=3))
        disk.refused = "leader-epoch-checkpoint"
        with pytest.raises(KafkaError):
            log.append_as_follower(older, NOW_MS)
        assert log.leader_epochs.entries == [EpochEntry(1, 0), EpochEntry(5, 1)]
        assert log.log_end_offset == 1
        disk.refused = None
        log.append_as_follower(older, NOW_MS)
        assert disk.read(EPOCHS) == b"0\n2\n1 0\n3 1\n"

    def test_after_a_failed_fsync_the_log_refuses_writes(self, disk: CrashFileSystem) -> None:
        log = open_log(disk)
        append(log, "a")
        disk.fail_next_fsync(".log")
        with pytest.raises(StorageFailure):
            log.flush(NOW_MS)
        assert log.durability.recovery_point == 0
        for write in (lambda: append(log, "b"), lambda: log.truncate_to(0), lambda: log.retention.apply(0)):
            with pytest.raises(KafkaError) as caught:
                write()
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert values_of(log) == ["a"]


class FailingCreate(CrashFileSystem):
    """A disk that refuses to create files whose path contains `refused`."""

    refused: str | None = None

    def open(self, path: str, *, create: bool) -> Any:
        if create and not self.exists(path):
            self._refuse(path)
        return super().open(path, create=create)

    def create(self, path: str) -> None:
        self._refuse(path)
        super().create(path)

    def _refuse(self, path: str) -> None:
        if self.refused is not None and self.refused in path:
            raise OSError(errno.EIO, "Input/output error", path)
