"""Windows of batches compared with the scan that reads one batch after the other."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.logs.compaction import keyed_batch
from tidelog.protocol.batch import BATCH_OVERHEAD, stamp
from tidelog.storage.compaction.batch_window import BatchWindow, read_windows
from tidelog.storage.disk.files import File
from tidelog.storage.segment.batch_scan import CorruptLog, UnsupportedFormat, checked_batches
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

PATH = "/log/0.log"


def file_of(data: bytes) -> File:
    disk = CrashFileSystem()
    disk.makedirs("/log")
    file = disk.open(PATH, create=True)
    file.append(data)
    return file


def batches(sizes: list[int]) -> list[bytes]:
    built = []
    for number, size in enumerate(sizes):
        batch = keyed_batch([(f"{number}", "x" * size), ("k", "v")])
        stamp(batch, 0, 10 * number, 3)
        built.append(bytes(batch))
    return built


def read_all(file: File, window_bytes: int, start: int = 0) -> list[BatchWindow]:
    return list(read_windows(file, start, window_bytes))


@pytest.mark.parametrize("window_bytes", [61, 100, 1000, 5000, 1 << 20])
def test_windows_have_all_batches_in_order(window_bytes: int) -> None:
    random = Random(3)
    data = batches([random.choice([0, 10, 300, 3000]) for _ in range(60)])
    file = file_of(b"".join(data))
    for start in (0, len(data[0])):
        windows = read_all(file, window_bytes, start)
        read = [
            (window.header(index), bytes(window.batch(index)))
            for window in windows
            for index in range(len(window.starts))
        ]
        assert read == [(each.header, bytes(each.data)) for each in checked_batches(file, start)]
        assert sum(window.size_bytes for window in windows) == file.size() - start
        assert all(
            len(window.starts) == 1 or window.size_bytes <= max(window_bytes, 3200) for window in windows
        )


def test_an_empty_file_has_no_window() -> None:
    assert read_all(file_of(b""), 1000) == []


@pytest.mark.parametrize("window_bytes", [100, 1 << 20])
def test_damage_is_reported_as_by_the_scan(window_bytes: int) -> None:
    random = Random(8)
    good = b"".join(batches([10, 200, 0, 50]))
    messages = set()
    for _ in range(300):
        damaged = bytearray(good)
        damaged[random.randrange(len(good))] ^= 1 << random.randrange(8)
        file = file_of(bytes(damaged[: random.choice([len(good), random.randrange(1, len(good))])]))
        try:
            expected = [each.position for each in checked_batches(file)]
        except (CorruptLog, UnsupportedFormat) as error:
            with pytest.raises(type(error)) as raised:
                read_all(file, window_bytes)
            # The rest may name the position within a piece of the file.
            assert str(raised.value).split(": ")[:2] == str(error).split(": ")[:2]
            messages.add(str(error).split(": ")[-1][:8])
        else:
            starts = [
                position + start
                for position, window in _positions(read_all(file, window_bytes))
                for start in window.starts.tolist()
            ]
            assert starts == expected
    assert len(messages) > 3


def _positions(windows: list[BatchWindow]) -> list[tuple[int, BatchWindow]]:
    positions, position = [], 0
    for window in windows:
        positions.append((position, window))
        position += window.size_bytes
    return positions


def test_a_batch_that_is_longer_than_a_window_is_one_window() -> None:
    data = batches([10, 9000, 10])
    windows = read_all(file_of(b"".join(data)), 2 * BATCH_OVERHEAD)
    assert [window.size_bytes for window in windows] == [len(batch) for batch in data]
