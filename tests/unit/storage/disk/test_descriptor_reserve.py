"""Operations that need a descriptor temporarily, in a process without free descriptors."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidelog.storage.disk.descriptor_pool import DescriptorPool
from tidelog.storage.disk.descriptor_reserve import DescriptorReserve
from tidelog.storage.disk.files import File, write_atomically
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.disk.os_files import OsFileSystem


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """Let this process open a file only after it closed another one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def disk() -> OsFileSystem:
    pool: DescriptorPool[File] = DescriptorPool(2)
    return OsFileSystem(pool, DescriptorReserve(1))


def test_without_a_reserve_no_file_can_be_opened(tmp_path: Path) -> None:
    with no_more_descriptors(), pytest.raises(OSError) as caught:
        OsFileSystem().fsync_dir(str(tmp_path))
    assert caught.value.errno == errno.EMFILE


def test_the_reserve_serves_one_operation_at_a_time(tmp_path: Path, disk: OsFileSystem) -> None:
    disk.makedirs(f"{tmp_path}/old")
    disk.listdir(str(tmp_path))  # the reserve is filled by the first operation
    with no_more_descriptors():
        for content in (b"first", b"second"):
            write_atomically(disk, f"{tmp_path}/checkpoint", content)
            assert disk.read(f"{tmp_path}/checkpoint") == content
        disk.create(f"{tmp_path}/created")
        assert disk.listdir(str(tmp_path)) == ["checkpoint", "created", "old"]


def test_a_file_that_stays_open_does_not_use_the_reserve(tmp_path: Path, disk: OsFileSystem) -> None:
    disk.listdir(str(tmp_path))
    with no_more_descriptors():
        with pytest.raises(OSError) as caught:
            disk.open_to_keep(f"{tmp_path}/log", create=True)
        assert caught.value.errno == errno.EMFILE
        disk.fsync_dir(str(tmp_path))


def test_files_open_for_reading_are_closed_for_others(tmp_path: Path, disk: OsFileSystem) -> None:
    (tmp_path / "sealed").write_bytes(b"sealed")
    sealed = OnDemandFile(disk, f"{tmp_path}/sealed")
    disk.listdir(str(tmp_path))
    assert sealed.pread(6, 0) == b"sealed"
    with no_more_descriptors():
        kept = disk.open_to_keep(f"{tmp_path}/log", create=True)
        kept.append(b"x")
        assert len(disk.pool) == 0
        with pytest.raises(OSError):
            sealed.pread(6, 0)
    assert sealed.pread(6, 0) == b"sealed"
