"""A full disk is logged in one line when it begins and then counted."""

from __future__ import annotations

import logging

import pytest

from tests.support.disks.descriptor_shortage import DescriptorLimitedFileSystem
from tests.support.logs.log_managers import create, start_log_manager
from tests.support.logs.partition_logs import append
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    log_lines = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    caplog.clear()
    return log_lines


def test_a_full_disk_is_logged_once_and_counted_until_it_has_space(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    disk = CrashFileSystem()
    manager = start_log_manager(disk, "/a")
    logs = [create(manager, partition=number) for number in range(3)]
    for log in logs:
        append(log, "before")
    disk.free_bytes = 10
    caplog.clear()
    for number in range(60):
        with pytest.raises(KafkaError) as refused:
            append(logs[number % 3], "larger than the remaining space")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    text = "append of /a/events-{} failed: [Errno 28] No space left on device: '/a/events-{}/{:020d}.log'"
    assert lines(caplog) == [f"ERROR log directory /a: {text.format(0, 0, 0)}"]
    manager.maintenance.report_faults()
    assert lines(caplog) == [f"ERROR log directory /a: 59 more failures, the last: {text.format(2, 2, 0)}"]
    disk.free_bytes = None
    append(logs[0], "after")
    manager.maintenance.report_faults()
    assert lines(caplog) == ["INFO log directory /a: no more failures after 60"]


def test_an_offline_directory_is_logged_in_its_own_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    disk = CrashFileSystem()
    manager = start_log_manager(disk, "/a", "/b")
    log = create(manager)
    append(log, "before")
    disk.fail_next_fsync("events-0")
    caplog.clear()
    with pytest.raises(KafkaError):
        log.flush(0)
    manager.directories.take_failed_offline()
    manager.maintenance.report_faults()
    (line,) = lines(caplog)
    assert line.startswith("ERROR log directory /a goes offline: fsync of /a/events-0/")


def test_a_descriptor_shortage_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    disk = DescriptorLimitedFileSystem()
    manager = start_log_manager(disk, "/a")
    log = create(manager)
    disk.refuse_uses(1, 2)
    for _ in range(2):
        with pytest.raises(KafkaError):
            append(log, "x")
    (line,) = lines(caplog)
    assert line.startswith("WARNING log directory /a: append of /a/events-0 failed: [Errno 24]")
